//go:build !(linux && amd64)

package amx

func permitted() bool { return false }
