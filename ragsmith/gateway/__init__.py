"""The gateway is the one way from techniques to models: it remembers calls, joins identical ones, pays and counts."""
