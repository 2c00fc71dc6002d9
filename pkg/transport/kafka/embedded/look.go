package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/kafka/wire"
)

const (
	// maxPartitions bounds partitions of a topic, and those that one message names.
	maxPartitions = 64
	// maxFetched is what is asked of the broker at most, above a first batch.
	maxFetched = 512 << 10
	// maxBlob bounds what a member of a group says.
	maxBlob = 4 << 10
	// maxWait is how long the broker may wait for something to send.
	maxWait = 5 * time.Second
	// A member waits so long for others to join.
	leastJoin, maxJoin = 10 * time.Second, 20 * time.Second
)

// groupKind and protocols are what consumers say. The broker keeps each name that it
// has heard of a group, and ends the process over one that a member says twice.
const groupKind = "consumer"

var protocols = map[string]bool{"range": true, "roundrobin": true, "sticky": true, "cooperative-sticky": true}

// settable are the settings of a topic that have no part in how much is kept.
var settable = map[string]bool{"retention.ms": true, "segment.ms": true, "message.timestamp.type": true, "compression.type": true, "max.message.bytes": true}

// refusal is why a request that is well-formed is not let through.
type refusal struct {
	code       int16 // Kafka's; 0: it is let through
	why        string
	topics     []string
	partitions []int32
	acks       int16
	bytes      int // of batches
}

func (r refusal) Error() string { return r.why }

// errRefused is of a request that has no answer but the connection's end.
var errRefused = errors.New("not allowed here")

type looking struct {
	guard *guard
	body  []byte
	said  map[string]bool // a member's protocols
	refusal
}

// look wants a request to be well-formed, needed and within bounds, and lowers what it
// asks for where that is too much.
func (g *guard) look(api *wire.API, version int16, body []byte) (refusal, error) {
	l := &looking{guard: g, body: body}
	err := wire.Walk(api.Request(version), body, l.see)
	if err == nil && api.Key == wire.Produce && len(l.topics) != 1 {
		err = fmt.Errorf("samples for %d topics: %w", len(l.topics), errRefused)
	}
	return l.refusal, err
}

func (l *looking) refuse(code int16, format string, args ...any) {
	if l.code == 0 {
		l.code, l.why = code, fmt.Sprintf(format, args...)
	}
}

func (l *looking) see(f wire.Field) error {
	in := l.body[f.From:f.To]
	switch f.Kind {
	case 't':
		return l.topic(string(in))
	case 'p':
		return l.partition(int32(binary.BigEndian.Uint32(in)))
	case 'r':
		l.batch(in)
	case 'x':
		if len(in) > 0 {
			l.refuse(codeTransaction, "this broker has no transactions")
		}
	case 'n':
		if n := int32(binary.BigEndian.Uint32(in)); n != -1 && (n < 1 || n > maxPartitions) {
			l.refuse(codeInvalidPartition, "%d partitions, want 1 to %d", n, maxPartitions)
		}
	case 'd':
		if !settable[string(in)] {
			l.refuse(codePolicy, "this broker has no topics with a %s of their own", in)
		}
	case 'a':
		l.acks = int16(binary.BigEndian.Uint16(in))
	case 'c':
		between(in, 0, maxFetched)
	case 'w':
		between(in, 0, int32(maxWait.Milliseconds()))
	case 'j':
		between(in, int32(leastJoin.Milliseconds()), int32(maxJoin.Milliseconds()))
	default:
		return l.member(f, in)
	}
	return nil
}

// wrong says what of a consumer group is refused.
var wrong = map[byte]string{
	'g': fmt.Sprintf("a group without a name, or one more than %d", maxGroups),
	'k': "a coordinator that is none of a group",
	'y': "a group that is none of consumers",
	'o': "a member's protocol that is not known, or said twice",
	'S': fmt.Sprintf("a subscription that is malformed, or above %d bytes", maxBlob),
	'A': fmt.Sprintf("an assignment that is malformed, or above %d bytes", maxBlob),
}

func (l *looking) member(f wire.Field, in []byte) error {
	ok := true
	switch f.Kind {
	case 'g':
		ok = len(in) > 0 && l.guard.group(string(in))
	case 'k':
		ok = in[0] == 0 // a group's, and no transaction's
	case 'y':
		ok = string(in) == groupKind
	case 'o':
		ok = protocols[string(in)] && !l.said[string(in)]
		if l.said == nil {
			l.said = map[string]bool{}
		}
		l.said[string(in)] = true
	case 'S', 'A':
		ok = len(in) <= maxBlob && wire.CheckMember(f.Kind, in) == nil
	}
	if !ok {
		return fmt.Errorf("%s: %w", wrong[f.Kind], errRefused)
	}
	return nil
}

func (l *looking) topic(name string) error {
	if len(l.topics) >= maxPartitions {
		return fmt.Errorf("more than %d topics: %w", maxPartitions, errRefused)
	}
	l.topics = append(l.topics, name)
	if !l.guard.topics[name] {
		l.refuse(codeUnknownTopic, "this broker has no topic %q, and makes none", name)
	}
	return nil
}

func (l *looking) partition(n int32) error {
	if n < 0 || n >= maxPartitions || len(l.partitions) >= maxPartitions {
		return fmt.Errorf("partition %d, and %d before it, of at most %d: %w", n, len(l.partitions), maxPartitions, errRefused)
	}
	l.partitions = append(l.partitions, n)
	return nil
}

// batch wants one batch that holds what it claims. The broker would remember each
// producer's number.
func (l *looking) batch(in []byte) {
	l.bytes += len(in)
	raw, rest, ok := wire.CutBatch(in)
	if !ok || len(rest) > 0 {
		l.refuse(codeInvalidRecord, "want one batch a partition")
		return
	}
	if len(raw) > wire.MaxBatch {
		l.refuse(codeTooLarge, "a batch of %d bytes, want at most %d", len(raw), wire.MaxBatch)
		return
	}
	b, err := wire.OpenBatch(raw)
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		l.refuse(codeTooLarge, "%v", err)
	case err != nil:
		l.refuse(codeInvalidRecord, "%v", err)
	case b.Count == 0 || b.Control() || b.Transactional():
		l.refuse(codeInvalidRecord, "want a batch of records, outside transactions")
	case b.Producer != -1:
		l.refuse(codeInvalidRecord, "this broker knows no producers by number: set enable.idempotence=false")
	}
}

// between changes a number where it is not.
func between(in []byte, least, most int32) {
	n := int32(binary.BigEndian.Uint32(in))
	binary.BigEndian.PutUint32(in, uint32(max(least, min(n, most))))
}
