//! Places to run: the agent, its transports, QEMU, and the lab image every machine boots.
