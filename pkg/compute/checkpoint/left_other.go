//go:build !unix

package checkpoint

// holds says that nothing tells which folders are in use: there are no locks here that end with a process.
const holds = false

func hold(string) (func(), error) { return func() {}, nil }
