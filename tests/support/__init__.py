"""What the tests stand on: really started servers, people, clocks."""
