"""Commands that only look at messages, backlogs and connected clients. They consume nothing."""
