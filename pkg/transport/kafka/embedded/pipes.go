package embedded

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// pipes is a listener that this process alone reaches.
type pipes struct {
	addr   net.Addr
	coming chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// address is one that clients are told.
type address string

func (address) Network() string { return "pipe" }

func (a address) String() string { return string(a) }

func (p *pipes) Addr() net.Addr { return p.addr }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.coming:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) dial() (net.Conn, error) { return p.dialContext(context.Background()) }

func (p *pipes) dialContext(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.coming <- there:
		return here, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-p.closed:
		return nil, fmt.Errorf("the embedded Kafka broker has ended: %w", net.ErrClosed)
	}
}
