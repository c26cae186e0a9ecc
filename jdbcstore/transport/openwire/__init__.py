"""OpenWire clients, JMS's: one session each."""
