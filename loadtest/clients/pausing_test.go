package clients

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// pause is three times what the nats command line waits between two replies.
const pause = 900 * time.Millisecond

// startPausing returns the URL of something between a client and the server:
// it passes everything on, and pauses before the second chunk of an answer.
func startPausing(t *testing.T, server string) string {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // closed below
			}
			done.Go(func() { passPausing(t.Context(), in, to.Host) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); done.Wait() }) // closing ends Accept
	return "nats://" + l.Addr().String()
}

// passPausing passes one connection on until either side closes it.
func passPausing(ctx context.Context, in net.Conn, to string) {
	defer func() { _ = in.Close() }() // the other side sees it
	out, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }() // ends the copying below
	go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
	buffer := make([]byte, 64<<10)
	for chunks := 0; ; {
		n, err := out.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(buffer[:n], []byte("Switchyard-Index")) {
			if chunks++; chunks == 2 {
				time.Sleep(pause)
			}
		}
		if _, err := in.Write(buffer[:n]); err != nil {
			return
		}
	}
}
