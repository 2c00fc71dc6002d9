package dlq

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/terminal"
)

// resend is a message that is to be sent again.
type resend struct {
	msg     *nats.Msg
	request string
	// sequence says that it is no prompt but a request that was accepted.
	sequence bool
}

// resend makes the letter's message again, or says why that cannot be. The letter's id is the
// message's for JetStream, and that of the request of a prompt that has none.
func (l *Letter) resend(s schemas.Subjects) (r resend, err error) {
	if err := l.cut(); err != nil {
		return r, err
	}
	r.msg = &nats.Msg{Subject: l.Subject, Data: l.message.Body, Header: headers(l.message, l.id)}
	switch model, flow, isPrompt := s.ParsePrompt(l.Subject); {
	case l.Subject == s.Sequence():
		r.sequence = true
		r.request, err = requestOfSequence(l.message.Body)
	case !isPrompt || model != s.Model:
		err = fmt.Errorf("its subject %q is none of model %s", l.Subject, s.Model)
	case flow.Check() != nil:
		err = flow.Check()
	case r.msg.Header.Get(schemas.HeaderAsk) != "":
		err = errors.New("it came by ask, and its caller waits no more: ask again")
	default:
		r.request, err = requestOfPrompt(r.msg)
		if err == nil && r.request == "" {
			r.request = l.id
			err = name(r.msg, l.id)
		}
	}
	return r, err
}

// name gives a prompt that can be read, and names no request, the id of one.
func name(m *nats.Msg, id string) error {
	if _, encoding, _ := edge.DecodePrompt(m.Header, m.Data, false); encoding == pb.Encoding_ENCODING_PROTOBUF {
		more, err := proto.Marshal(&pb.Prompt{RequestId: id})
		m.Data = slices.Concat(m.Data, more) // of a field that is there twice the last counts
		return err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(m.Data, &fields); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	delete(fields, "requestId")
	fields["request_id"] = json.RawMessage(`"` + id + `"`)
	body := &bytes.Buffer{}
	encoder := json.NewEncoder(body)
	encoder.SetEscapeHTML(false) // which would make the body larger
	err := encoder.Encode(fields)
	m.Data = bytes.TrimSuffix(body.Bytes(), []byte("\n"))
	return err
}

// headers returns a message's own: those of NATS are orders to the stream that it was
// published to.
func headers(d *pb.DeadLetter, id string) nats.Header {
	h := nats.Header{}
	for _, one := range d.Headers {
		if name := string(one.Name); !strings.HasPrefix(strings.ToLower(name), "nats-") {
			for _, v := range one.Values {
				h[name] = append(h[name], string(v))
			}
		}
	}
	h.Set(nats.MsgIdHdr, id)
	return h
}

// requestOfPrompt returns the request that a prompt names, read as tokenizers do: what they
// cannot read would be given up again.
func requestOfPrompt(m *nats.Msg) (string, error) {
	p, _, err := edge.DecodePrompt(m.Header, m.Data, false)
	if err != nil {
		return "", fmt.Errorf("it cannot be read: %w", err)
	}
	return p.RequestId, checkRequest(p.RequestId)
}

// checkRequest allows no id, too.
func checkRequest(id string) error {
	if id == "" {
		return nil
	}
	return schemas.CheckRequestID(id)
}

func requestOfSequence(body []byte) (string, error) {
	s := &pb.Sequence{}
	if err := proto.Unmarshal(body, s); err != nil {
		return "", fmt.Errorf("it cannot be read: %w", err)
	}
	return s.RequestId, schemas.CheckRequestID(s.RequestId)
}

// mayResend says why sending a message again would do nothing, by the newest
// record of its request's log; nil: there is none.
func (r resend) mayResend(newest []byte) error {
	switch {
	case !r.sequence && newest == nil:
		return nil
	case !r.sequence:
		return fmt.Errorf("request %s has an answer or has ended, and a repeat only brings that again: publish the prompt under another request_id (dlq show has it)", r.request)
	case newest == nil:
		return fmt.Errorf("the token log of request %s is gone: send its prompt again", r.request)
	case ended(newest):
		return fmt.Errorf("request %s has ended: send its prompt again under another request_id (its token ids are in dlq show)", r.request)
	}
	return nil
}

// ended reports whether a record is the last one of its log.
func ended(record []byte) bool {
	r := &pb.Record{}
	return proto.Unmarshal(record, r) == nil && r.Format == schemas.RecordFormat && (r.GetTerminal() != nil || r.GetPacked() != nil)
}

// Table writes letters for people.
type Table struct{ w *tabwriter.Writer }

// NewTable writes to w what is added, at Flush.
func NewTable(w io.Writer) *Table {
	t := &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	_, _ = fmt.Fprintln(t.w, "SEQ\tGIVEN UP\tREASON\tSUBJECT\tDELIVERIES\tBYTES\tERROR") // Flush has the error
	return t
}

// Add adds a line.
func (t *Table) Add(l *Letter) {
	_, _ = fmt.Fprintf(t.w, "%d\t%s\t%s\t%s\t%d\t%d\t%s\n",
		l.Seq, l.Time.UTC().Format(time.DateTime), terminal.Clean(l.Reason), terminal.Clean(l.Subject), l.Deliveries, l.Bytes, terminal.Clean(l.Error))
}

// Flush writes the table.
func (t *Table) Flush() error {
	if err := t.w.Flush(); err != nil {
		return fmt.Errorf("writing what there is: %w", err)
	}
	return nil
}

// Text returns a letter with its headers and its body for people.
func (c Content) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "letter %d, given up %s by %s\n", c.Seq, c.Time.UTC().Format(time.RFC3339), terminal.Clean(c.Replica))
	fmt.Fprintf(&b, "reason: %s: %s\n", terminal.Clean(c.Reason), terminal.Clean(c.Error))
	fmt.Fprintf(&b, "message %d of %s on %s, stored %s, delivered %d times\n", c.Sequence, terminal.Clean(c.Stream), terminal.Clean(c.Subject), terminal.Clean(c.Stored), c.Deliveries)
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		fmt.Fprintf(&b, "%s: %s\n", terminal.Clean(name), terminal.Clean(strings.Join(c.Headers[name], ", ")))
	}
	fmt.Fprintf(&b, "%d bytes", c.Bytes)
	if c.KeptBytes < c.Bytes {
		fmt.Fprintf(&b, ", the first %d of which were kept", c.KeptBytes)
	}
	if c.Body == nil {
		b.WriteString(", not a text: --json has them\n")
		return b.String()
	}
	fmt.Fprintf(&b, ":\n%s\n", terminal.Clean(*c.Body))
	return b.String()
}
