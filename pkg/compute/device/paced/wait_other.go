//go:build !linux

package paced

func newWaiter() waiter { return timers{} }
