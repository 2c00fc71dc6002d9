package nowait

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

func of(c *net.TCPConn) net.Conn {
	raw, err := c.SyscallConn()
	if err != nil {
		return c
	}
	out := &conn{Conn: c, raw: raw}
	out.in.call, out.in.step = syscall.SYS_READ, out.in.some
	out.out.call, out.out.step = syscall.SYS_WRITE, out.out.all
	return out
}

type conn struct {
	net.Conn
	raw     syscall.RawConn
	in, out transfer
}

// Read reads what has come, or waits for it.
func (c *conn) Read(p []byte) (n int, err error) {
	n, err = c.in.run(c.raw.Read, p)
	if n == 0 && err == nil && len(p) > 0 {
		return 0, io.EOF
	}
	return n, c.wrap("read", err)
}

// Write writes all of p.
func (c *conn) Write(p []byte) (n int, err error) {
	n, err = c.out.run(c.raw.Write, p)
	return n, c.wrap("write", err)
}

// wrap has a system call's error look as package net's do.
func (c *conn) wrap(op string, err error) error {
	errno, is := err.(syscall.Errno) //nolint:errorlint // it is a transfer's own, or package net's
	if !is {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, errno)}
}

// transfer is one direction of a connection.
type transfer struct {
	call uintptr
	step func(fd uintptr) (done bool) // of a RawConn: it waits and comes again while that is false

	mu   sync.Mutex
	rest []byte
	n    int
	err  error
}

// run transfers p as wait says.
func (t *transfer) run(wait func(func(uintptr) bool) error, p []byte) (n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rest, t.n, t.err = p, 0, nil
	if len(p) > 0 {
		err = wait(t.step)
	}
	t.rest = nil
	if err == nil {
		err = t.err
	}
	return t.n, err
}

// some transfers what goes at once.
func (t *transfer) some(fd uintptr) (done bool) {
	for {
		n, _, errno := syscall.RawSyscall(t.call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(t.rest))), uintptr(len(t.rest))) //nolint:gosec // the kernel takes an address
		switch errno {
		case 0:
			t.n, t.rest = t.n+int(n), t.rest[n:] //nolint:gosec // it is at most the rest
			return true
		case syscall.EAGAIN:
			return false
		case syscall.EINTR:
		default:
			t.err = errno
			return true
		}
	}
}

// all transfers everything.
func (t *transfer) all(fd uintptr) (done bool) {
	for len(t.rest) > 0 && t.err == nil {
		if !t.some(fd) {
			return false
		}
	}
	return true
}
