// Package edge is what producers meet: it reads prompts in their three
// encodings, checks and completes them, and writes chunks.
package edge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/switchyard/switchyard/pkg/request/jsontext"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// EncodingOf returns how a body that need not be a prompt's is answered: as it is encoded.
func EncodingOf(h nats.Header, body []byte) pb.Encoding { return encodingOf(h, body) }

// encodingOf says how a body is encoded: by its header, else by its first byte.
func encodingOf(h nats.Header, body []byte) pb.Encoding {
	switch {
	case h.Get(schemas.HeaderContentType) == schemas.ContentProtobuf:
		return pb.Encoding_ENCODING_PROTOBUF
	case bytes.HasPrefix(body, []byte("{")):
		return pb.Encoding_ENCODING_JSON
	}
	return pb.Encoding_ENCODING_TEXT
}

// DecodePrompt reads the body of a prompt of any model. With text, a body that is neither
// protobuf nor JSON is the prompt itself. The encoding is right even with an
// error, which is an *Error.
func DecodePrompt(h nats.Header, body []byte, text bool) (*pb.Prompt, pb.Encoding, error) {
	return Limits{}.DecodePrompt(h, body, text)
}

// DecodePrompt reads the body of a prompt, unless it has more than may be.
func (l Limits) DecodePrompt(h nats.Header, body []byte, text bool) (*pb.Prompt, pb.Encoding, error) {
	enc := encodingOf(h, body)
	if err := l.CheckSize(len(body)); err != nil {
		if enc == pb.Encoding_ENCODING_TEXT && !text {
			enc = pb.Encoding_ENCODING_JSON
		}
		return nil, enc, err
	}
	if enc == pb.Encoding_ENCODING_TEXT {
		if !text {
			return nil, pb.Encoding_ENCODING_JSON, Errorf(BadRequest,
				"the body is neither JSON (it does not begin with '{') nor marked as protobuf by header Content-Type: application/protobuf")
		}
		return &pb.Prompt{Text: string(body)}, enc, checkUTF8(invalidAt(body))
	}
	p := &pb.Prompt{}
	return p, enc, decode(enc, body, p, l)
}

// DecodeReplay reads the body of a replay request.
func DecodeReplay(h nats.Header, body []byte) (*pb.Replay, pb.Encoding, error) {
	enc := encodingOf(h, body)
	r := &pb.Replay{}
	if enc == pb.Encoding_ENCODING_TEXT {
		return r, pb.Encoding_ENCODING_JSON, Errorf(BadRequest, `the body of a replay is JSON such as {"request_id": "…", "from_index": 0}, or protobuf`)
	}
	return r, enc, decode(enc, body, r, Limits{})
}

func decode(enc pb.Encoding, body []byte, m proto.Message, l Limits) error {
	if enc == pb.Encoding_ENCODING_PROTOBUF {
		if err := l.check(fieldsIn(m.ProtoReflect().Descriptor(), body)); err != nil {
			return err
		}
		if err := checkUTF8(invalidIn(m.ProtoReflect().Descriptor(), body)); err != nil {
			return err
		}
		return malformed("protobuf", proto.Unmarshal(body, m))
	}
	if err := l.check(l.contentOf(body)); err != nil {
		return err
	}
	if err := checkUTF8(invalidAt(body)); err != nil {
		return err
	}
	if err := jsontext.CheckSurrogates(body); err != nil {
		return malformed("JSON", err)
	}
	return malformedJSON(body, m.ProtoReflect().Descriptor(), protojson.Unmarshal(quoteRaw(body), m))
}

// checkUTF8 makes an error of the place of a byte that is not UTF-8; -1: there is none.
func checkUTF8(at int) error {
	if at < 0 {
		return nil
	}
	return Errorf(BadPrompt, "the body is not UTF-8: byte %d is invalid", at)
}

// invalidAt returns the place of the first byte that is not UTF-8, or -1.
func invalidAt(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; ; {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
}

// invalidIn returns the place of the first byte of a protobuf message's strings that
// is not UTF-8, or -1. What is malformed otherwise is left to the decoder.
func invalidIn(d protoreflect.MessageDescriptor, body []byte) int {
	for at := 0; at < len(body); {
		number, kind, head := protowire.ConsumeTag(body[at:])
		size := protowire.ConsumeFieldValue(number, kind, body[at+max(head, 0):])
		if head < 0 || size < 0 {
			return -1
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(body[at+head:])
			if bad := invalidField(d.Fields().ByNumber(number), value); bad >= 0 {
				return at + head + size - len(value) + bad
			}
		}
		at += head + size
	}
	return -1
}

func invalidField(f protoreflect.FieldDescriptor, value []byte) int {
	switch {
	case f == nil:
		return -1
	case f.Kind() == protoreflect.StringKind:
		return invalidAt(value)
	case f.Kind() == protoreflect.MessageKind:
		return invalidIn(f.Message(), value)
	}
	return -1
}

var jsonOut = protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}

// EncodeChunk makes a chunk a message for its reply subject. In text the last
// chunk is an empty body, or an error's words, so a chunk that has text and ends the stream becomes
// two messages.
func EncodeChunk(enc pb.Encoding, subject string, c *pb.Chunk) ([]*nats.Msg, error) {
	msg := &nats.Msg{Subject: subject, Header: nats.Header{}}
	var err error
	switch enc {
	case pb.Encoding_ENCODING_TEXT:
		return textMessages(subject, c), nil
	case pb.Encoding_ENCODING_PROTOBUF:
		msg.Header.Set(schemas.HeaderContentType, schemas.ContentProtobuf)
		msg.Data, err = proto.Marshal(c)
	default:
		msg.Header.Set(schemas.HeaderContentType, schemas.ContentJSON)
		msg.Data, err = marshalJSON(c)
	}
	return []*nats.Msg{msg}, err
}

// EncodeTokens makes ids and their text a message.
func EncodeTokens(enc pb.Encoding, subject string, t *pb.Tokens) (*nats.Msg, error) {
	msg := &nats.Msg{Subject: subject, Header: nats.Header{schemas.HeaderContentType: {schemas.ContentJSON}}}
	var err error
	if enc == pb.Encoding_ENCODING_PROTOBUF {
		msg.Header.Set(schemas.HeaderContentType, schemas.ContentProtobuf)
		msg.Data, err = proto.Marshal(t)
	} else {
		msg.Data, err = marshalJSON(t)
	}
	return msg, err
}

// marshalJSON leaves out the spaces that protojson puts in or not by the program's build:
// an index has the same bytes whichever of two versions' replicas sends it.
func marshalJSON(c proto.Message) ([]byte, error) {
	data, err := jsonOut.Marshal(c)
	if err != nil {
		return nil, err
	}
	line := bytes.NewBuffer(make([]byte, 0, len(data)))
	if err := json.Compact(line, data); err != nil {
		return nil, fmt.Errorf("compacting JSON: %w", err)
	}
	return line.Bytes(), nil
}

// Headers of the text encoding's last message, beside Switchyard-Index.
const (
	headerRequest      = "Switchyard-Request-Id"
	headerFinishReason = "Switchyard-Finish-Reason"
	headerPrompt       = "Switchyard-Prompt-Tokens"
	headerCompletion   = "Switchyard-Completion-Tokens"
	headerExpertGBs    = "Switchyard-Expert-Gb-S"
	headerColdStarts   = "Switchyard-Cold-Starts"
	headerDegraded     = "Switchyard-Degraded-Rows"
	headerDegradedOf   = "Switchyard-Degraded-Tokens"
	headerThreshold    = "Switchyard-Lowest-Threshold"
	headerWay          = "Switchyard-United-Way"
	headerSeed         = "Switchyard-Seed"
	headerQueue        = "Switchyard-Queue-Seconds"
	headerTTFT         = "Switchyard-Ttft-Seconds"
	headerTotal        = "Switchyard-Total-Seconds"
	headerMixed        = "Switchyard-Mixed-Classes"
	headerErrorCode    = "Switchyard-Error-Code"
	headerError        = "Switchyard-Error"
	headerRetryAfter   = "Switchyard-Retry-After"
)

func textMessages(subject string, c *pb.Chunk) (out []*nats.Msg) {
	index := strconv.Itoa(int(c.Index))
	if c.Text != "" {
		out = append(out, &nats.Msg{
			Subject: subject, Data: []byte(c.Text),
			Header: nats.Header{schemas.HeaderIndex: {index}, headerRequest: {c.RequestId}},
		})
	}
	if c.FinishReason != "" {
		last := &nats.Msg{Subject: subject, Header: lastHeaders(index, c)}
		if e := c.Error; e != nil { // tools that hide headers show it
			last.Data = []byte(e.Code + ": " + oneLine(e.Message))
		}
		out = append(out, last)
	}
	return out
}

func lastHeaders(index string, c *pb.Chunk) nats.Header {
	seconds := func(s float64) []string { return []string{strconv.FormatFloat(s, 'f', 6, 64)} }
	h := nats.Header{
		schemas.HeaderIndex: {index}, headerRequest: {c.RequestId},
		headerFinishReason: {c.FinishReason},
		headerPrompt:       {strconv.Itoa(int(c.GetUsage().GetPromptTokens()))},
		headerCompletion:   {strconv.Itoa(int(c.GetUsage().GetCompletionTokens()))},
		headerSeed:         {strconv.FormatUint(uint64(c.Seed), 10)},
		headerQueue:        seconds(c.GetTimings().GetQueue()),
		headerTTFT:         seconds(c.GetTimings().GetTtft()),
		headerTotal:        seconds(c.GetTimings().GetTotal()),
	}
	if u := c.GetUsage(); u != nil && u.ExpertGbS != nil {
		h[headerExpertGBs] = []string{strconv.FormatFloat(u.GetExpertGbS(), 'g', -1, 64)}
		h[headerColdStarts] = []string{strconv.FormatUint(uint64(u.GetColdStarts()), 10)}
	}
	if u := c.GetUsage(); u.GetDegradedRows() > 0 {
		h[headerDegraded] = []string{strconv.FormatUint(uint64(u.GetDegradedRows()), 10)}
		h[headerDegradedOf] = []string{strconv.FormatUint(uint64(u.GetDegradedTokens()), 10)}
		h[headerThreshold] = []string{strconv.FormatFloat(u.GetLowestThreshold(), 'g', -1, 64)}
		h[headerWay] = []string{strconv.FormatUint(uint64(u.GetUnitedWay()), 10)}
	}
	if c.GetMixedClasses() {
		h[headerMixed] = []string{"true"}
	}
	if e := c.Error; e != nil {
		h[headerErrorCode], h[headerError] = []string{e.Code}, []string{oneLine(e.Message)}
		if e.RetryAfter > 0 {
			h[headerRetryAfter] = seconds(e.RetryAfter)
		}
	}
	return h
}

func oneLine(s string) string {
	return string(bytes.Map(func(r rune) rune {
		if r == '\r' || r == '\n' {
			return ' '
		}
		return r
	}, []byte(s)))
}
