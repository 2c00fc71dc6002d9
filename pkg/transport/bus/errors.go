package bus

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrNoConnection says that no server could be reached, or that it refused
// this client (exit code 3 of commands).
var ErrNoConnection = errors.New("no connection to NATS")

// SettingsError says that no server could be dialled by what an operator has set:
// waiting mends nothing.
type SettingsError struct{ Err error }

// Error is what is wrong, without passwords.
func (e *SettingsError) Error() string { return "connecting to NATS: " + e.Err.Error() }

func (e *SettingsError) Unwrap() error { return e.Err }

// WithCure adds to an error what to do about it, where it is a missing right, that servers
// have too little room, or that nobody answers for JetStream: a client hears no more of that than that there is no responder.
func WithCure(err error) error {
	if IsDenied(err) {
		return fmt.Errorf("%w; log in as a user with that right: switchyard auth show says who has which", err)
	}
	var said *RoomError
	if refusal, _ := noStorage(err); refusal != nil && littleOnAll(refusal) && !errors.As(err, &said) {
		return fmt.Errorf("%w; raise max_file_store and max_memory_store of the servers: switchyard inspect says what a model takes", err)
	}
	for _, none := range []error{nats.ErrNoResponders, jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount} {
		if errors.Is(err, none) {
			return fmt.Errorf("%w; has the server JetStream, and the account? Start it with nats-server -js", err)
		}
	}
	return err
}

// errInsecure says that a connection was refused because it would cross a
// network unencrypted.
var errInsecure = errors.New("unencrypted NATS connection beyond the loopback")

// ErrStopped is what a Queue or Receiving answers after it was stopped.
var ErrStopped = errors.New("stopped")

// ErrAckLost says that no acknowledgement came: the message may be stored or not.
var ErrAckLost = errors.New("no acknowledgement from the stream")

// TooLargeError says that a message exceeds the server's limit. It is found
// before publishing, and splitting the message is the way out.
type TooLargeError struct {
	Subject string
	// Size and Limit are in bytes, headers included.
	Size, Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("message for %s has %d bytes and the NATS server takes %d: split it, or raise max_payload", e.Subject, e.Size, e.Limit)
}

// MismatchError says that a stream exists with another configuration.
type MismatchError struct {
	Differences []Difference
	// Newer is the release that has made the stream, where that is a later one than this;
	// empty: it is not.
	Newer string
}

func (e *MismatchError) Error() string {
	if len(e.Differences) == 0 {
		return "a stream is not what is wanted"
	}
	worst := slices.MaxFunc(e.Differences, func(a, b Difference) int { return cmp.Compare(a.Cure, b.Cure) })
	what := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		what[i] = d.String()
	}
	return fmt.Sprintf("stream %s has %s: %s", worst.Stream, strings.Join(what, ", and "), e.cure(worst))
}

func (e *MismatchError) cure(worst Difference) string {
	switch {
	case e.Newer != "":
		return "switchyard " + e.Newer + " has made it, which is later than this one; start that"
	case worst.Cure < ByChange:
		return "switchyard setup, with the same --model and flags, mends that and loses nothing"
	case worst.Cure == ByRemake:
		return "start all services with the same flags, or stop them and remake it by " + worst.Command() + ", which loses what it holds"
	}
	return "start all services with the same flags, or change it by " + worst.Command() + ", which may lose what it holds"
}

// MissingError says that streams are missing, and that this user may not make them.
type MissingError struct{ Streams []string }

// mostNamed bounds the streams that an error names.
const mostNamed = 3

func (e *MissingError) Error() string {
	names, are := strings.Join(e.Streams[:min(len(e.Streams), mostNamed)], ", "), "is"
	if more := len(e.Streams) - mostNamed; more > 0 {
		names = fmt.Sprintf("%s and %d more", names, more)
	}
	if len(e.Streams) > 1 {
		are = "are"
	}
	return fmt.Sprintf("%s %s missing, and this user makes no streams: run switchyard setup --keep as user setup, which makes them, also when a server has lost them", names, are)
}

const (
	codeStreamStoreFailed jetstream.ErrorCode = 10077
	codeNoResources       jetstream.ErrorCode = 10023
	codeHeaderTooLarge    jetstream.ErrorCode = 10097
	codeNoStorage         jetstream.ErrorCode = 10047
	codeNoMemory          jetstream.ErrorCode = 10028
	codeAccountFull       jetstream.ErrorCode = 10002
	codeNoCluster         jetstream.ErrorCode = 10074
	codeNoPeers           jetstream.ErrorCode = 10005
	codeMaxConsumers      jetstream.ErrorCode = 10026
	codeStreamOffline     jetstream.ErrorCode = 10118
)

func hasCode(err error, codes ...jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && slices.Contains(codes, api.ErrorCode)
}

// IsFull reports whether a publish was refused because the stream has reached its
// bounds: the moment to answer "overloaded".
func IsFull(err error) bool {
	return hasCode(err, codeStreamStoreFailed, codeNoResources)
}

// IsHeaderTooLarge reports whether a publish was refused because its headers are
// larger than a stream takes (64 KiB).
func IsHeaderTooLarge(err error) bool {
	return hasCode(err, codeHeaderTooLarge)
}

// IsWrongSequence reports whether a publish was refused because the subject's
// last sequence is another one than expected. In a cluster it may also mean that
// another message of the subject, perhaps this one's earlier attempt, is on its way
// to the other servers, and that nobody can read it yet.
func IsWrongSequence(err error) bool {
	return hasCode(err, jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// transient reports whether trying the same again can succeed without anybody
// changing anything.
func transient(err error) bool {
	for _, t := range []error{
		ErrAckLost, nats.ErrNoResponders, nats.ErrTimeout, nats.ErrDisconnected, nats.ErrConnectionReconnecting,
		nats.ErrReconnectBufExceeded, jetstream.ErrNoStreamResponse, jetstream.ErrServerShutdown, jetstream.ErrNoHeartbeat,
	} {
		if errors.Is(err, t) {
			return true
		}
	}
	// A publish writes by itself, so it may meet the connection's end first.
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, io.EOF) {
		return true
	}
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code == 503 && !IsFull(err)
}
