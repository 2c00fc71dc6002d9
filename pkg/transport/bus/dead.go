package bus

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Reason is why a message is given up: a token of a dead letter's subject, and a
// metric's label.
type Reason string

// The reasons.
const (
	// Unreadable: no message of this queue.
	Unreadable Reason = "unreadable"
	// Panicked: its handler has a fault that the message meets.
	Panicked Reason = "panic"
	// Crashed: replicas went away while it was all that they worked on.
	Crashed Reason = "crash"
	// Deliveries: it was delivered or taken up too often.
	Deliveries Reason = "deliveries"
	// Refused: it can be read, and nobody can go on with it.
	Refused Reason = "refused"
)

// Reasons lists them.
var Reasons = []Reason{Unreadable, Panicked, Crashed, Deliveries, Refused}

const (
	// buryWithin bounds the wait for the stream of dead letters: a letter is for
	// people, and there are other messages to handle.
	buryWithin = 5 * time.Second
	// maxUnreadable is how much is kept of what cannot be read, and so never be sent
	// again: anybody can make such messages.
	maxUnreadable = 64 << 10
	maxDeadError  = 1 << 10
	// deadHeaderRoom is more than a letter's own header takes.
	deadHeaderRoom = 256
)

// bury puts a delivery that is given up where somebody can look at it. What cannot
// be kept is told, and given up all the same.
func (d *Delivery) bury(why Reason, cause error) {
	if d.queue.Dead == "" {
		return
	}
	if why == Unreadable && !d.letters.take(time.Now()) {
		d.c.obs.Buried(d.Subject, why)
		d.c.log.Warn("a message that cannot be read was given up, and not kept: too many were in this minute", "subject", d.Subject, "sequence", d.Sequence, "cause", cause)
		return
	}
	defer d.renew()()
	ctx, cancel := context.WithTimeout(context.Background(), buryWithin)
	defer cancel()
	d.buryUntil(ctx, why, cause)
}

func (d *Delivery) buryUntil(ctx context.Context, why Reason, cause error) {
	// Who buries it again, because this answer was lost, makes the same id.
	id := fmt.Sprintf("%s-%d-%d", d.queue.Stream.Name, d.Sequence, d.Timestamp.UnixNano())
	letter := d.letter(why, cause)
	fit(letter, d.c.MaxPayload()-deadHeaderRoom)
	if _, err := d.c.Store(ctx, d.queue.Dead+"."+string(why), letter, nats.Header{nats.MsgIdHdr: {id}}); err != nil {
		d.c.log.Error("a message that was given up could not be kept", "subject", d.Subject, "sequence", d.Sequence, "reason", why, "cause", cause, "error", err)
		return
	}
	d.c.obs.Buried(d.Subject, why)
	d.c.log.Warn("a message was given up; switchyard dlq shows it", "subject", d.Subject, "sequence", d.Sequence, "reason", why, "cause", cause)
}

// letters bounds what is kept in a minute of what cannot be read: the stream keeps no more,
// each letter takes a round trip to the server, and anybody can make such messages.
type letters struct {
	mu    sync.Mutex
	began time.Time // the minute
	kept  int
}

func (l *letters) take(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.began) >= time.Minute {
		l.began, l.kept = now, 0
	}
	l.kept++
	return l.kept <= schemas.MaxDead
}

func (d *Delivery) letter(why Reason, cause error) *pb.DeadLetter {
	l := &pb.DeadLetter{
		Version: schemas.Version, Stream: d.queue.Stream.Name, Subject: strings.ToValidUTF8(d.Subject, "?"), Sequence: d.Sequence,
		Reason: string(why), Error: cut(strings.ToValidUTF8(reason(cause), "?"), maxDeadError),
		Replica: d.queue.Replica, Deliveries: uint32(d.Delivered), Stored: d.Timestamp.UTC().Format(time.RFC3339Nano),
		Body: d.Data,
	}
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		h := &pb.DeadHeader{Name: []byte(name)}
		for _, v := range d.Headers[name] {
			h.Values = append(h.Values, []byte(v))
		}
		l.Headers = append(l.Headers, h)
	}
	if why == Unreadable {
		shorten(l, maxUnreadable)
	}
	return l
}

// cut shortens a text to so many bytes, at the end of a character.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}

// fit cuts a letter's body so that the letter has at most limit bytes.
func fit(l *pb.DeadLetter, limit int64) {
	if over := int64(proto.Size(l)) - limit; over > 0 {
		// The field that says so takes up to 11 bytes.
		shorten(l, max(0, len(l.Body)-int(over)-11))
	}
}

func shorten(l *pb.DeadLetter, limit int) {
	if len(l.Body) > limit {
		l.CutFrom, l.Body = uint64(len(l.Body)), l.Body[:limit]
	}
}
