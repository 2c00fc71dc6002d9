package dlq

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

var names = schemas.NewSubjects(schemas.DefaultPrefix, "demo")

func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func header(name, value string) *pb.DeadHeader {
	return &pb.DeadHeader{Name: []byte(name), Values: [][]byte{[]byte(value)}}
}

func TestResend(t *testing.T) {
	protobuf := header(schemas.HeaderContentType, schemas.ContentProtobuf)
	for _, tc := range []struct {
		name    string
		letter  *pb.DeadLetter
		request string
		refused string // empty: it is sent
	}{
		{"JSON", &pb.DeadLetter{Subject: names.Prompt(), Body: []byte(`{"request_id":"a","text":"x"}`)}, "a", ""},
		{"JSON in camel case", &pb.DeadLetter{Subject: names.Prompt(), Body: []byte(`{"requestId":"a"}`)}, "a", ""},
		{"without an id", &pb.DeadLetter{Subject: names.Prompt(), Body: []byte(`{"text":"x"}`)}, "dlq-1-7", ""},
		{"an empty id", &pb.DeadLetter{Subject: names.Prompt(), Body: []byte(`{"text":"<\u00e4>","requestId":""}`)}, "dlq-1-7", ""},
		{"nothing else", &pb.DeadLetter{Subject: names.Prompt(), Body: []byte(`{}`)}, "dlq-1-7", ""},
		{"protobuf without an id", &pb.DeadLetter{Subject: names.Prompt(), Headers: []*pb.DeadHeader{protobuf}, Body: encode(t, &pb.Prompt{Text: "x"})}, "dlq-1-7", ""},
		{"protobuf", &pb.DeadLetter{Subject: names.Prompt(), Headers: []*pb.DeadHeader{protobuf}, Body: encode(t, &pb.Prompt{RequestId: "b"})}, "b", ""},
		{"a tenant's", &pb.DeadLetter{Subject: "switchyard.prompt.demo.acme.high", Body: []byte(`{}`)}, "dlq-1-7", ""},
		{"sequence", &pb.DeadLetter{Subject: names.Sequence(), Body: encode(t, &pb.Sequence{RequestId: "c"})}, "c", ""},
		{"cut", &pb.DeadLetter{Subject: names.Prompt(), Body: []byte(`{`), CutFrom: 9}, "", "only 1 of the message's 9 bytes"},
		{"unreadable", &pb.DeadLetter{Subject: names.Prompt(), Body: []byte(`{"text":`)}, "", "cannot be read"},
		{"unknown field", &pb.DeadLetter{Subject: names.Prompt(), Body: []byte(`{"request_id":"a","text":"x","foo":1}`)}, "", `cannot be read: bad_request: malformed JSON body: (line 1:30): unknown field "foo"`},
		{"wrong type", &pb.DeadLetter{Subject: names.Prompt(), Body: []byte(`{"request_id":"a","max_tokens":"many"}`)}, "", "cannot be read"},
		{"id twice", &pb.DeadLetter{Subject: names.Prompt(), Body: []byte(`{"request_id":"a","request_id":"b"}`)}, "", "cannot be read"},
		{"a list", &pb.DeadLetter{Subject: names.Prompt(), Body: []byte(`null`)}, "", "cannot be read"},
		{"protobuf not UTF-8", &pb.DeadLetter{Subject: names.Prompt(), Headers: []*pb.DeadHeader{protobuf}, Body: []byte("\x0a\x02a\xff")}, "", "cannot be read: bad_prompt: the body is not UTF-8: byte 3 is invalid"},
		{"unreadable sequence", &pb.DeadLetter{Subject: names.Sequence(), Body: []byte("\xff")}, "", "cannot be read"},
		{"bad id", &pb.DeadLetter{Subject: names.Prompt(), Body: []byte(`{"request_id":"a.b"}`)}, "a.b", "request_id"},
		{"ask", &pb.DeadLetter{Subject: names.Prompt(), Headers: []*pb.DeadHeader{header(schemas.HeaderAsk, "text")}, Body: []byte("x")}, "", "came by ask"},
		{"another model's", &pb.DeadLetter{Subject: "switchyard.prompt.other", Body: []byte(`{}`)}, "", "none of model demo"},
		{"another subject", &pb.DeadLetter{Subject: "$JS.API.STREAM.DELETE.x", Body: []byte(`{}`)}, "", "none of model demo"},
		{"no class", &pb.DeadLetter{Subject: "switchyard.prompt.demo.acme.x", Body: []byte(`{}`)}, "", `class "x"`},
	} {
		tc.letter.Version = 2
		letter := decode(bus.Stored{Data: encode(t, tc.letter)})
		letter.id = "dlq-1-7"
		r, err := letter.resend(names)
		if r.request != tc.request || (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%s: request %q, error %v, want %q, %q", tc.name, r.request, err, tc.request, tc.refused)
		}
		if err != nil || r.sequence {
			continue
		}
		before, _, err1 := edge.DecodePrompt(r.msg.Header, tc.letter.Body, false)
		after, _, err2 := edge.DecodePrompt(r.msg.Header, r.msg.Data, false)
		if before.RequestId = tc.request; err1 != nil || err2 != nil || !proto.Equal(before, after) {
			t.Errorf("%s: %q became %q, %v", tc.name, tc.letter.Body, r.msg.Data, err2)
		}
	}
}

// No order to a stream is sent again, however it is written.
func TestResendHeaders(t *testing.T) {
	h := headers(&pb.DeadLetter{Headers: []*pb.DeadHeader{
		header("Nats-Rollup", "all"), header("nats-expected-last-sequence", "7"), header("Nats-Msg-Id", "old"), header("Switchyard-Reply-To", "r"),
	}}, "dlq-1-7")
	if len(h) != 2 || h.Get("Nats-Msg-Id") != "dlq-1-7" || h.Get("Switchyard-Reply-To") != "r" {
		t.Errorf("%v", h)
	}
}

func TestMayResend(t *testing.T) {
	terminal := encode(t, &pb.Record{Format: schemas.RecordFormat, Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{}}})
	packed := encode(t, &pb.Record{Format: schemas.RecordFormat, Kind: &pb.Record_Packed{Packed: &pb.Packed{}}})
	accept := encode(t, &pb.Record{Format: schemas.RecordFormat, Kind: &pb.Record_Accept{Accept: &pb.Accept{}}})
	for _, tc := range []struct {
		name     string
		sequence bool
		newest   []byte
		refused  string
	}{
		{"new prompt", false, nil, ""},
		{"prompt that was accepted", false, accept, "another request_id"},
		{"prompt that ended", false, terminal, "another request_id"},
		{"sequence that waits", true, accept, ""},
		{"sequence behind noise", true, []byte("noise"), ""},
		{"sequence that ended", true, terminal, "has ended"},
		{"sequence that ended and is packed", true, packed, "has ended"},
		{"sequence without a log", true, nil, "is gone"},
	} {
		err := resend{request: "a", sequence: tc.sequence}.mayResend(tc.newest)
		if (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.refused)
		}
	}
}

// Whatever lies in the stream is shown, fit for a terminal, and sent nowhere else.
func FuzzLetter(f *testing.F) {
	f.Add([]byte("\x08\x02"))
	f.Add(encode(f, &pb.DeadLetter{Version: 2, Subject: names.Prompt(), Body: []byte(`{}`)}))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := decode(bus.Stored{Data: data, Subject: "switchyard.dlq.demo.prompt.panic"})
		if strings.ContainsAny(strings.ReplaceAll(l.Content().Text(), "\n", ""), "\x1b\r\x00") {
			t.Errorf("%q", l.Content().Text())
		}
		if r, err := l.resend(names); err == nil && !strings.HasPrefix(r.msg.Subject, "switchyard.prompt.demo") && r.msg.Subject != names.Sequence() {
			t.Errorf("sent to %s", r.msg.Subject)
		}
	})
}
