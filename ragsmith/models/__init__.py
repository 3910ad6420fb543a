"""Models: the protocols that techniques use, and the clients that implement them."""
