// Package rights is the one table of what each user may publish and subscribe, with the
// reason of each right. Credentials, the settings of a NATS server with passwords
// and docs/permissions.md are made of it. It is data and functions without I/O.
package rights
