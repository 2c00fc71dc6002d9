package main

import (
	"context"
	"net"
	"sync"
	"testing"
)

// proxy passes bytes on to a server until it hangs: then it keeps connections
// open and passes on nothing, as a server that is suspended does.
type proxy struct {
	address string
	to      string

	mu    sync.Mutex
	flows chan struct{} // closed while bytes are passed on
	open  []net.Conn
	done  sync.WaitGroup
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: l.Addr().String(), to: to, flows: make(chan struct{})}
	close(p.flows)
	p.done.Go(func() { p.accept(t.Context(), l) })
	t.Cleanup(func() {
		_ = l.Close() // ends accept
		p.goOn()
		p.closeAll()
		p.done.Wait()
	})
	return p
}

func (p *proxy) accept(ctx context.Context, l net.Listener) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.to)
		if err != nil {
			_ = in.Close() // the client sees it
			continue
		}
		p.mu.Lock()
		p.open = append(p.open, in, out)
		p.mu.Unlock()
		p.done.Go(func() { p.pass(in, out) })
		p.done.Go(func() { p.pass(out, in) })
	}
}

// pass copies until either side is closed.
func (p *proxy) pass(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		flows := p.flows
		p.mu.Unlock()
		<-flows
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flows = make(chan struct{})
}

func (p *proxy) goOn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flows:
	default:
		close(p.flows)
	}
}

func (p *proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		_ = c.Close() // it may be closed already
	}
}
