package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/switchyard/switchyard/pkg/transport/kafka/wire"
)

const (
	// maxAnswer bounds what a broker answers, and maxFetched an answer with batches: a
	// broker sends a partition's first one whatever its length.
	maxAnswer  = 1 << 20
	maxFetched = 16 << 20
	// readPart is how much more room there is for an answer than has come of it.
	readPart = 64 << 10
)

// checked is a connection to a broker. It looks at answers before the library does,
// which makes room for whatever a broker, or who writes to its topic, claims.
type checked struct {
	net.Conn
	refused func(error) // is told of batches that are left out; nil: nobody is

	mu    sync.Mutex
	asked map[int32]question // by its number
	sent  outgoing

	got   []byte // of an answer that has not come whole
	ready []byte // of one that the library reads
	broke error
}

// question is a request without an answer yet.
type question struct {
	api     *wire.API
	version int16
}

func (c *checked) Write(p []byte) (int, error) {
	c.mu.Lock()
	err := c.sent.take(p, func(number int32, q question) { c.asked[number] = q })
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *checked) Read(p []byte) (int, error) {
	for len(c.ready) == 0 {
		if c.broke != nil {
			return 0, c.broke
		}
		if err := c.next(); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) { // then it goes on where it was
				c.broke = err
			}
			return 0, err
		}
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

func (c *checked) next() error {
	const head = 8 // length and number
	if err := c.have(head); err != nil {
		return err
	}
	number := int32(binary.BigEndian.Uint32(c.got[4:]))
	c.mu.Lock()
	q, ok := c.asked[number]
	c.mu.Unlock()
	if !ok {
		return fmt.Errorf("a broker's answer %d to nothing that was asked: %w", number, wire.ErrMalformed)
	}
	most := maxAnswer
	if q.api.Key == wire.Fetch {
		most = maxFetched
	}
	size, err := wire.CheckSize(binary.BigEndian.Uint32(c.got), most)
	if err == nil {
		err = c.have(4 + size)
	}
	if err != nil {
		return fmt.Errorf("a broker's answer to %s: %w", q.api.Name, err)
	}
	body, err := q.look(c.got[head:], c.refused)
	if err != nil {
		return fmt.Errorf("a broker's answer to %s: %w", q.api.Name, err)
	}
	c.mu.Lock()
	delete(c.asked, number)
	c.mu.Unlock()
	c.ready = append(binary.BigEndian.AppendUint32(nil, uint32(4+len(body))), c.got[4:head]...)
	c.ready = append(c.ready, body...)
	c.got = nil
	return nil
}

// have reads until so many bytes are there. Room is made as they come.
func (c *checked) have(n int) error {
	for len(c.got) < n {
		at := len(c.got)
		c.got = append(c.got, make([]byte, min(n-at, readPart))...)
		m, err := c.Conn.Read(c.got[at:])
		c.got = c.got[:at+m]
		if err != nil && len(c.got) < n {
			return err
		}
	}
	return nil
}

// look wants an answer's claims to be true, and returns what the library may read.
func (q question) look(body []byte, refused func(error)) ([]byte, error) {
	shape := q.api.Answer(q.version)
	if q.api.Key == wire.Fetch {
		return wire.Unpack(shape, body, refused)
	}
	return body, wire.Walk(shape, body, func(f wire.Field) error {
		in := body[f.From:f.To]
		switch f.Kind {
		case 'V':
			narrow(in)
		case 'A', 'S':
			return wire.CheckMember(f.Kind, in)
		}
		return nil
	})
}

// narrow makes a broker's versions of a message those that are known here.
func narrow(in []byte) {
	key, least, most := int16(binary.BigEndian.Uint16(in)), int16(binary.BigEndian.Uint16(in[2:])), int16(binary.BigEndian.Uint16(in[4:]))
	for _, a := range wire.Known() {
		if a.Key == key {
			binary.BigEndian.PutUint16(in[2:], uint16(max(least, a.Min)))
			binary.BigEndian.PutUint16(in[4:], uint16(min(most, a.Max)))
		}
	}
}

// outgoing follows what is written, which may come in any pieces.
type outgoing struct {
	head [requestHead]byte
	have int
	skip int // of a request's rest
}

// requestHead is of a request: length, kind, version and number.
const requestHead = 12

func (o *outgoing) take(p []byte, asked func(int32, question)) error {
	for len(p) > 0 {
		if o.skip > 0 {
			n := min(o.skip, len(p))
			o.skip, p = o.skip-n, p[n:]
			continue
		}
		n := copy(o.head[o.have:], p)
		o.have, p = o.have+n, p[n:]
		if o.have < requestHead {
			continue
		}
		version := int16(binary.BigEndian.Uint16(o.head[6:]))
		api, err := wire.Find(int16(binary.BigEndian.Uint16(o.head[4:])), version)
		if err != nil {
			return fmt.Errorf("asking a broker: %w", err)
		}
		asked(int32(binary.BigEndian.Uint32(o.head[8:])), question{api, version})
		o.have, o.skip = 0, int(binary.BigEndian.Uint32(o.head[:]))-requestHead+4
	}
	return nil
}
