"""The client SDK's pure parts."""
