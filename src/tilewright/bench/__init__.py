"""Measuring: the protocol, the peers, the records and the tables made from them."""
