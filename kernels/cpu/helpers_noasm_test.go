//go:build !amd64

package cpu

func useEmulated() (restore func(), ok bool) { return nil, false }
