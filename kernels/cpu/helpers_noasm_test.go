//go:build !amd64

package cpu

func emulateTiles() (restore func(), ok bool) { return nil, false }
