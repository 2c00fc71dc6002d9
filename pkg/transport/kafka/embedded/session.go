package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/xdg-go/scram"

	"github.com/switchyard/switchyard/pkg/transport/kafka/wire"
)

const (
	// maxFrame bounds a request with batches, maxSmall all others, and maxStrange those
	// of who has not said who he is.
	maxFrame   = 1 << 20
	maxSmall   = 16 << 10
	maxStrange = 4 << 10
	// largeFrame is what few may have at a time.
	largeFrame = 64 << 10
	maxReply   = 4 << 20
)

const (
	// idleFor is how long nothing need be asked, as in Kafka.
	idleFor = 10 * time.Minute
	// loginWithin is how long saying who one is may take.
	loginWithin = 10 * time.Second
	// frameWithin is how long a message may take that has begun, either way.
	frameWithin = 10 * time.Second
	// replyWithin is how long the broker may take: members wait for each other.
	replyWithin = maxJoin + maxSession + 30*time.Second
)

// session is one connection. It handles one request after the other.
type session struct {
	*guard
	client net.Conn
	broker net.Conn // nil: nothing was let through yet
	known  bool
	since  time.Time
	talk   *scram.ServerConversation
	large  bool // it holds a place of the guard's
}

// session serves a connection to its end.
func (g *guard) session(c net.Conn) {
	s := &session{guard: g, client: c, known: g.login == nil, since: time.Now()}
	err := s.turn()
	for err == nil {
		err = s.turn()
	}
	g.leave(c, s.known)
	_ = c.Close() // nobody is there, or it was refused
	if s.broker != nil {
		_ = s.broker.Close() // it has nothing to say any more
		g.forget(s.broker)
	}
	if errors.Is(err, errRefused) || errors.Is(err, wire.ErrMalformed) || errors.Is(err, wire.ErrTooLarge) {
		g.tell(c.RemoteAddr(), err)
	}
}

func (s *session) turn() error {
	defer s.small()
	message, err := s.read()
	if err != nil {
		return err
	}
	h, body, err := wire.ParseHeader(message)
	if err != nil {
		return err
	}
	reply, err := s.reply(h, body, message)
	if err != nil || reply == nil {
		return err
	}
	_ = s.client.SetWriteDeadline(time.Now().Add(frameWithin)) // a closed one fails next
	_, err = s.client.Write(wire.Frame(reply))
	return err
}

// read reads a request. Room for it is made as it comes.
func (s *session) read() ([]byte, error) {
	until, most := time.Now().Add(idleFor), maxFrame
	if !s.known {
		until, most = s.since.Add(loginWithin), maxStrange
	}
	_ = s.client.SetReadDeadline(until) // a closed one fails next
	size, err := wire.ReadSize(s.client, most)
	if err != nil {
		return nil, err
	}
	if s.known {
		_ = s.client.SetReadDeadline(time.Now().Add(frameWithin))
	}
	if size <= maxSmall {
		return wire.ReadBody(s.client, size)
	}
	key, err := wire.ReadBody(s.client, 2)
	if err != nil {
		return nil, err
	}
	if binary.BigEndian.Uint16(key) != wire.Produce {
		return nil, fmt.Errorf("a request of kind %d of %d bytes, want at most %d: %w", binary.BigEndian.Uint16(key), size, maxSmall, wire.ErrTooLarge)
	}
	if err := s.grow(size); err != nil {
		return nil, err
	}
	rest, err := wire.ReadBody(s.client, size-len(key))
	return append(key, rest...), err
}

// grow waits for a place among the few large messages, if this is one.
func (s *session) grow(size int) error {
	if size <= largeFrame || s.large {
		return nil
	}
	limit := time.NewTimer(frameWithin)
	defer limit.Stop()
	select {
	case s.guard.large <- struct{}{}:
		s.large = true
		return nil
	case <-limit.C:
		return fmt.Errorf("%d large messages are in flight: %w", maxLarge, wire.ErrTooLarge)
	}
}

func (s *session) small() {
	if s.large {
		s.large = false
		<-s.guard.large
	}
}

// reply is what a request gets; nil: nothing.
func (s *session) reply(h wire.Header, body, message []byte) ([]byte, error) {
	if h.Key == wire.APIVersions {
		return versions(h), nil
	}
	api, err := wire.Find(h.Key, h.Version)
	if err != nil {
		return nil, err
	}
	switch {
	case h.Key == wire.SASLHandshake || h.Key == wire.SASLAuthenticate:
		return s.authenticate(api, h, body)
	case !s.known:
		return nil, fmt.Errorf("%s before a login: %w", api.Name, errRefused)
	}
	r, err := s.look(api, h.Version, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", api.Name, err)
	}
	if r.code != 0 {
		return s.refuse(h, api, r)
	}
	if h.Key == wire.Produce {
		s.took(r.bytes)
	}
	return s.forward(message, h.Key == wire.Produce && r.acks == 0)
}

// refuse answers what is not let through, where an answer has a place for it.
func (s *session) refuse(h wire.Header, api *wire.API, r refusal) ([]byte, error) {
	switch {
	case h.Key == wire.Produce && r.acks != 0:
		return notProduced(h, r), nil
	case h.Key == wire.CreateTopics:
		return notCreated(h, r), nil
	}
	return nil, fmt.Errorf("%s: %w: %w", api.Name, r, errRefused)
}

func (s *session) reach() (err error) {
	if s.broker != nil {
		return nil
	}
	if s.broker, err = s.dial(); err != nil {
		return err
	}
	if !s.keep(s.broker) {
		return net.ErrClosed
	}
	return nil
}

func (s *session) forward(message []byte, noAnswer bool) (reply []byte, err error) {
	if err := s.reach(); err != nil {
		return nil, err
	}
	_ = s.broker.SetDeadline(time.Now().Add(replyWithin)) // a closed one fails next
	if _, err := s.broker.Write(wire.Frame(message)); err != nil || noAnswer {
		return nil, err
	}
	size, err := wire.ReadSize(s.broker, maxReply)
	if err != nil {
		return nil, err
	}
	if err := s.grow(size); err != nil {
		return nil, err
	}
	reply = make([]byte, size) // the broker is ours
	_, err = io.ReadFull(s.broker, reply)
	return reply, err
}

func (s *session) authenticate(api *wire.API, h wire.Header, body []byte) (reply []byte, err error) {
	var said []byte
	if h.Key == wire.SASLHandshake {
		err = wire.Walk("t", body, func(f wire.Field) error { said = body[f.From:f.To]; return nil })
	} else {
		err = wire.Walk("b", body, func(f wire.Field) error { said = body[f.From:f.To]; return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", api.Name, err)
	}
	if h.Key == wire.SASLAuthenticate {
		return s.step(h, string(said))
	}
	s.talk = s.login.begin(string(said))
	if s.talk == nil || s.known {
		s.talk = nil
		return handshake(h.Correlation, codeMechanism, s.login.names()), nil
	}
	return handshake(h.Correlation, 0, s.login.names()), nil
}

// step is one of two in which a client proves that it knows the password.
func (s *session) step(h wire.Header, said string) ([]byte, error) {
	if s.talk == nil {
		return authenticated(h, codeSASLState, "no login has begun", ""), nil
	}
	step, err := s.talk.Step(said)
	if err != nil || s.talk.Done() && !s.talk.Valid() {
		s.talk = nil
		return authenticated(h, codeLogin, "wrong user or password", ""), nil
	}
	if s.talk.Done() {
		s.talk = nil
		if s.known = s.welcome(s.client); !s.known {
			return nil, fmt.Errorf("%d connections: %w", maxConns, errRefused)
		}
	}
	return authenticated(h, 0, "", step), nil
}
