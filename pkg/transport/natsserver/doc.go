// Package natsserver runs a NATS server with JetStream inside this process,
// for `switchyard up` and for tests.
package natsserver
