package nowait

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// pair is a connection through Conn, and its other end.
func pair(t *testing.T) (here net.Conn, there *net.TCPConn) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // its connection is there
	dialled, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	there, _ = accepted.(*net.TCPConn)
	here = Conn(dialled)
	t.Cleanup(func() { _ = here.Close(); _ = there.Close() }) // a test may have closed them
	return here, there
}

// What is more than the system's buffers comes whole, both ways at the same time, and then its end.
func TestWhole(t *testing.T) {
	here, there := pair(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	go func() { _, _ = io.Copy(there, there); _ = there.Close() }() // what is read says whether it went well
	go func() {
		if n, err := here.Write(sent); n != len(sent) || err != nil {
			t.Errorf("%d bytes were written: %v", n, err)
		}
	}()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(here, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("other bytes came back: %v", err)
	}
	if n, err := here.Read(nil); n != 0 || err != nil {
		t.Errorf("reading nothing: %d, %v", n, err)
	}
	if err := there.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := here.Read(got); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("behind the end: %d, %v", n, err)
	}
}

// A deadline ends a wait with an error that package net/http knows, in both directions.
func TestDeadline(t *testing.T) {
	here, _ := pair(t)
	for name, wait := range map[string]func([]byte) (int, error){"read": here.Read, "write": here.Write} {
		if err := here.SetDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err := wait(make([]byte, 64<<20)) // more than buffers hold
		timed, is := err.(net.Error)         //nolint:errorlint // as package net/http looks at it
		if !is || !timed.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if err := here.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Errors are those of package net.
func TestErrors(t *testing.T) {
	here, there := pair(t)
	if err := there.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = there.Close() // takes the connection back
	_, err := here.Read(make([]byte, 1))
	op, is := err.(*net.OpError) //nolint:errorlint // as package net/http looks at it
	if !is || op.Op != "read" || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("of a connection that was reset: %v", err)
	}
	if _, err := here.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("writing to it: %v", err)
	}
	_ = here.Close() // as above
	if _, err := here.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("of one that was closed: %v", err)
	}
}

// What is no TCP connection stays as it is.
func TestOthers(t *testing.T) {
	a, b := net.Pipe()
	defer func() { _ = a.Close(); _ = b.Close() }() // nothing is on the way
	if Conn(a) != a {
		t.Error("a pipe is another one")
	}
}
