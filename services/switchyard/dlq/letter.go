// Package dlq shows what services have given up, sends it again, and drops it. It
// knows no model: what it shows is what lies in the stream of dead letters.
package dlq

import (
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Letter is a message that was given up. Its JSON form is a line of `dlq ls --json`.
type Letter struct {
	// Seq is the letter's own sequence, by which commands name it.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	// Reason is a word, Error what happened.
	Reason string `json:"reason"`
	Error  string `json:"error"`
	// Where the message was, since when, and how often it was delivered.
	Stream     string `json:"stream"`
	Subject    string `json:"subject"`
	Sequence   uint64 `json:"sequence"`
	Stored     string `json:"stored"`
	Deliveries uint32 `json:"deliveries"`
	// Replica gave it up.
	Replica string `json:"replica"`
	// Bytes of its body; KeptBytes are fewer if it was cut.
	Bytes     uint64 `json:"bytes"`
	KeptBytes uint64 `json:"kept_bytes"`

	message *pb.DeadLetter
	// id is the letter's alone, among the letters of all streams that there ever were.
	id string
}

// Content is a letter with all that the message had: what `dlq show --json` prints.
type Content struct {
	Letter
	Headers map[string][]string `json:"headers"`
	// The body is one of these: as text where it is UTF-8.
	Body    *string `json:"body,omitempty"`
	BodyB64 []byte  `json:"body_b64,omitempty"`
}

// decode reads a letter; what is none is shown as one without a message.
func decode(m bus.Stored) *Letter {
	d := &pb.DeadLetter{}
	if err := proto.Unmarshal(m.Data, d); err != nil || d.Version == 0 {
		d = &pb.DeadLetter{Reason: schemas.LastToken(m.Subject), Error: "this is no dead letter", Body: m.Data}
	}
	return &Letter{
		Seq: m.Sequence, Time: m.Time, Reason: d.Reason, Error: d.Error,
		Stream: d.Stream, Subject: d.Subject, Sequence: d.Sequence, Stored: d.Stored, Deliveries: d.Deliveries,
		Replica: d.Replica, Bytes: max(d.CutFrom, uint64(len(d.Body))), KeptBytes: uint64(len(d.Body)), message: d,
	}
}

// Content returns the letter as it is printed in JSON.
func (l *Letter) Content() Content {
	c := Content{Letter: *l, Headers: map[string][]string{}}
	for _, h := range l.message.Headers {
		values := make([]string, len(h.Values))
		for i, v := range h.Values {
			values[i] = string(v)
		}
		c.Headers[string(h.Name)] = values
	}
	if body := l.message.Body; utf8.Valid(body) {
		text := string(body)
		c.Body = &text
	} else {
		c.BodyB64 = body
	}
	return c
}

func (l *Letter) cut() error {
	if l.KeptBytes < l.Bytes {
		return fmt.Errorf("only %d of the message's %d bytes were kept", l.KeptBytes, l.Bytes)
	}
	return nil
}
