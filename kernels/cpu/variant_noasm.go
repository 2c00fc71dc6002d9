//go:build !amd64

package cpu

func supported(v int) bool { return v == generic }
