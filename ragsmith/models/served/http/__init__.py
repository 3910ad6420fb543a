"""HTTP: the client that requests are sent with, and the event loop that it runs on; imported when one is sent."""
