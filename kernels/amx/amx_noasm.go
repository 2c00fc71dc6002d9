//go:build !amd64

package amx

func supported() bool { return false }
