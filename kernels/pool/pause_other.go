//go:build !amd64

package pool

func pause() {}
