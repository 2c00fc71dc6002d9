package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

var protobuf = nats.Header{schemas.HeaderContentType: {schemas.ContentProtobuf}}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestDecodePrompt(t *testing.T) {
	seed := uint32(7)
	want := &pb.Prompt{Text: "Once", RequestId: "r1", Seed: &seed, Stop: []string{"."}}
	for _, tc := range []struct {
		name     string
		header   nats.Header
		body     string
		text     bool
		want     *pb.Prompt
		encoding pb.Encoding
	}{
		{"json", nil, `{"text": "Once", "request_id": "r1", "seed": 7, "stop": ["."]}`, true, want, pb.Encoding_ENCODING_JSON},
		{"biases", nil, `{"text": "a", "logit_bias": {"5": -100, "7": 0.5}}`, true, &pb.Prompt{Text: "a", LogitBias: map[uint32]float64{5: -100, 7: 0.5}}, pb.Encoding_ENCODING_JSON},
		{"protobuf", protobuf, string(marshal(t, want)), true, want, pb.Encoding_ENCODING_PROTOBUF},
		{"text", nil, "Once", true, &pb.Prompt{Text: "Once"}, pb.Encoding_ENCODING_TEXT},
		{"text after space", nil, " {", true, &pb.Prompt{Text: " {"}, pb.Encoding_ENCODING_TEXT},
		{"no text", nil, "", true, &pb.Prompt{}, pb.Encoding_ENCODING_TEXT},
		{"header wins", protobuf, "", false, &pb.Prompt{}, pb.Encoding_ENCODING_PROTOBUF},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, encoding, err := DecodePrompt(tc.header, []byte(tc.body), tc.text)
			if err != nil || encoding != tc.encoding || !proto.Equal(got, tc.want) {
				t.Errorf("%v, %v, %v", got, encoding, err)
			}
		})
	}
}

func TestDecodePromptErrors(t *testing.T) {
	for _, tc := range []struct {
		name     string
		header   nats.Header
		body     string
		encoding pb.Encoding
		code     Code
		says     string
	}{
		{"text where none is taken", nil, "Once", pb.Encoding_ENCODING_JSON, BadRequest, "application/protobuf"},
		{"empty where no text is taken", nil, "", pb.Encoding_ENCODING_JSON, BadRequest, "JSON"},
		{"cut JSON", nil, `{"text": "On`, pb.Encoding_ENCODING_JSON, BadRequest, "malformed JSON body: it ends too early"},
		{"more after JSON", nil, `{} {}`, pb.Encoding_ENCODING_JSON, BadRequest, "malformed JSON"},
		{"unknown field", nil, `{"text": "a", "max_token": 3}`, pb.Encoding_ENCODING_JSON, BadRequest, `body: (line 1:15): unknown field "max_token"`},
		{"wrong type", nil, `{"max_tokens": "many"}`, pb.Encoding_ENCODING_JSON, BadRequest, `body: (line 1:16): invalid value for int32 field max_tokens: "many"`},
		{"wrong type in a message", nil, `{"messages": [{"role": "assistant", "reasoning_content": 1}]}`, pb.Encoding_ENCODING_JSON, BadRequest, "field reasoning_content: 1"},
		{"no list", nil, `{"stop": "a"}`, pb.Encoding_ENCODING_JSON, BadRequest, `body: (line 1:10): a list or an object is wanted where "a" stands`},
		{"no object", nil, `{"messages": [null]}`, pb.Encoding_ENCODING_JSON, BadRequest, "(line 1:15): a list or an object is wanted where null stands"},
		{"a comma in tools", nil, `{"messages": [], "tools": [{"a": 1,}]}`, pb.Encoding_ENCODING_JSON, BadRequest, "body: tools: byte 35: invalid character '}'"},
		{"deep tools", nil, `{"tools": ` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}", pb.Encoding_ENCODING_JSON, BadRequest, "body: tools: byte 10009: invalid character '[' exceeded max depth"},
		{"a comma", nil, `{"stop": ["a",]}`, pb.Encoding_ENCODING_JSON, BadRequest, "syntax error (line 1:15): unexpected token ]"},
		{"fraction", nil, `{"max_tokens": 1.5}`, pb.Encoding_ENCODING_JSON, BadRequest, "1.5"},
		{"above 32 bits", nil, `{"max_tokens": 4294967296}`, pb.Encoding_ENCODING_JSON, BadRequest, "4294967296"},
		{"negative id", nil, `{"input_ids": [-1]}`, pb.Encoding_ENCODING_JSON, BadRequest, "-1"},
		{"twice", nil, `{"seed": 1, "seed": 2}`, pb.Encoding_ENCODING_JSON, BadRequest, "seed"},
		{"JSON not UTF-8", nil, "{\"text\": \"a\xff\"}", pb.Encoding_ENCODING_JSON, BadPrompt, "the body is not UTF-8: byte 11 is invalid"},
		{"long name", nil, `{"` + strings.Repeat("x", 5000) + `": 1}`, pb.Encoding_ENCODING_JSON, BadRequest, "…"},
		{"malformed protobuf", protobuf, "\xff\xff", pb.Encoding_ENCODING_PROTOBUF, BadRequest, "malformed protobuf body: "},
		{"cut protobuf", protobuf, "\x0a\x7fabc", pb.Encoding_ENCODING_PROTOBUF, BadRequest, "protobuf"},
		{"protobuf not UTF-8", protobuf, "\x0a\x02a\xff", pb.Encoding_ENCODING_PROTOBUF, BadPrompt, "the body is not UTF-8: byte 3 is invalid"},
		{"within a message", protobuf, "\x12\x06\x0a\x01u\x12\x01\xff", pb.Encoding_ENCODING_PROTOBUF, BadPrompt, "the body is not UTF-8: byte 7 is invalid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, encoding, err := DecodePrompt(tc.header, []byte(tc.body), false)
			check(t, err, tc.code, tc.says)
			if encoding != tc.encoding {
				t.Errorf("encoding %v, want %v", encoding, tc.encoding)
			}
		})
	}
}

// The same bytes are refused in the same words, whatever the encoding.
func TestTextNotUTF8(t *testing.T) {
	_, _, err := DecodePrompt(nil, []byte("ab\xff"), true)
	check(t, err, BadPrompt, "the body is not UTF-8: byte 2 is invalid")
}

// check wants a typed error of a code whose message has says in it.
func check(t *testing.T, err error, code Code, says string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no typed error, want %s", err, code)
	}
	if e.Code != code || !strings.Contains(e.Message, says) || strings.Contains(e.Message, "\u00a0") || len(e.Message) > 2*maxMessage {
		t.Errorf("%v; want %s and %q", e, code, says)
	}
}

func TestDecodeReplay(t *testing.T) {
	want := &pb.Replay{RequestId: "r", FromIndex: 3}
	for _, tc := range []struct {
		header nats.Header
		body   string
	}{{nil, `{"request_id": "r", "from_index": 3}`}, {protobuf, string(marshal(t, want))}} {
		if got, _, err := DecodeReplay(tc.header, []byte(tc.body)); err != nil || !proto.Equal(got, want) {
			t.Errorf("%v, %v", got, err)
		}
	}
	_, encoding, err := DecodeReplay(nil, []byte("r"))
	check(t, err, BadRequest, "request_id")
	if encoding != pb.Encoding_ENCODING_JSON {
		t.Errorf("encoding %v", encoding)
	}
}

func last() *pb.Chunk {
	return &pb.Chunk{
		RequestId: "r", Index: 4, Text: "end", FinishReason: "error", Seed: 4294967295,
		Usage:   &pb.Usage{PromptTokens: 3, CompletionTokens: 5},
		Timings: &pb.Timings{Queue: 0.25, Ttft: 0.5, Total: 2},
		Error:   &pb.Error{Code: "overloaded", Message: "come\r\nback", RetryAfter: 2},
	}
}

func encode(t *testing.T, enc pb.Encoding, c *pb.Chunk) []*nats.Msg {
	t.Helper()
	msgs, err := EncodeChunk(enc, "inbox", c)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range msgs {
		if m.Subject != "inbox" {
			t.Errorf("subject %q", m.Subject)
		}
	}
	return msgs
}

// JSON has snake_case names, zeros where nothing is set, and numbers for
// numbers: the edge's messages have no 64-bit integers.
func TestChunkJSON(t *testing.T) {
	msgs := encode(t, pb.Encoding_ENCODING_JSON, &pb.Chunk{Usage: &pb.Usage{}, Timings: &pb.Timings{}})
	var zero map[string]any
	if err := json.Unmarshal(msgs[0].Data, &zero); err != nil || len(msgs) != 1 {
		t.Fatalf("%d messages, %v", len(msgs), err)
	}
	for name, want := range map[string]any{"request_id": "", "index": 0.0, "text": "", "finish_reason": "", "seed": 0.0, "error": nil} {
		if got, ok := zero[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if u, _ := zero["usage"].(map[string]any); u["prompt_tokens"] != 0.0 || u["completion_tokens"] != 0.0 {
		t.Errorf("usage %v", u)
	}
	body := encode(t, pb.Encoding_ENCODING_JSON, last())[0]
	var full map[string]any
	if err := json.Unmarshal(body.Data, &full); err != nil {
		t.Fatal(err)
	}
	if full["seed"] != 4294967295.0 || full["index"] != 4.0 {
		t.Errorf("seed %v, index %v", full["seed"], full["index"])
	}
	if got := body.Header.Get(schemas.HeaderContentType); got != schemas.ContentJSON {
		t.Errorf("content type %q", got)
	}
	back := &pb.Chunk{}
	if err := protojson.Unmarshal(body.Data, back); err != nil || !proto.Equal(back, last()) {
		t.Errorf("%v, %v", back, err)
	}
	var compact bytes.Buffer // protojson has spaces in one build and not in another
	if err := json.Compact(&compact, body.Data); err != nil || compact.String() != string(body.Data) {
		t.Errorf("%s has spaces that may differ: %v", body.Data, err)
	}
}

// No field at the edge is a 64-bit integer, which JSON would carry as a string.
func TestNo64BitIntegers(t *testing.T) {
	fields := pb.File_switchyard_v1_edge_proto.Messages()
	for i := range fields.Len() {
		m := fields.Get(i).Fields()
		for j := range m.Len() {
			if kind := m.Get(j).Kind().String(); strings.HasSuffix(kind, "64") {
				t.Errorf("%s is an %s", m.Get(j).FullName(), kind)
			}
		}
	}
}

func TestChunkProtobuf(t *testing.T) {
	m := encode(t, pb.Encoding_ENCODING_PROTOBUF, last())[0]
	back := &pb.Chunk{}
	if err := proto.Unmarshal(m.Data, back); err != nil || !proto.Equal(back, last()) {
		t.Errorf("%v, %v", back, err)
	}
	if got := m.Header.Get(schemas.HeaderContentType); got != schemas.ContentProtobuf {
		t.Errorf("content type %q", got)
	}
}

// In text the body is the text and nothing else; the stream ends with an empty
// body, or the words of an error, whose headers carry the rest.
func TestChunkText(t *testing.T) {
	msgs := encode(t, pb.Encoding_ENCODING_TEXT, &pb.Chunk{RequestId: "r", Index: 3, Text: "häl"})
	if len(msgs) != 1 || string(msgs[0].Data) != "häl" || msgs[0].Header.Get(schemas.HeaderIndex) != "3" {
		t.Fatalf("%+v", msgs)
	}
	if msgs := encode(t, pb.Encoding_ENCODING_TEXT, &pb.Chunk{Index: 3}); len(msgs) != 0 {
		t.Errorf("an empty body before the end: %+v", msgs)
	}
	msgs = encode(t, pb.Encoding_ENCODING_TEXT, last())
	if len(msgs) != 2 || string(msgs[0].Data) != "end" || string(msgs[1].Data) != "overloaded: come  back" {
		t.Fatalf("%+v", msgs)
	}
	for name, want := range map[string]string{
		schemas.HeaderIndex: "4", headerRequest: "r", headerFinishReason: "error", headerPrompt: "3",
		headerCompletion: "5", headerSeed: "4294967295", headerQueue: "0.250000", headerTTFT: "0.500000", headerTotal: "2.000000",
		headerErrorCode: "overloaded", headerError: "come  back", headerRetryAfter: "2.000000",
	} {
		if got := msgs[1].Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	fine := last()
	fine.Error, fine.FinishReason = nil, "stop"
	if msgs := encode(t, pb.Encoding_ENCODING_TEXT, fine); len(msgs) != 2 || len(msgs[1].Data) != 0 {
		t.Errorf("without an error: %+v", msgs)
	}
	if got := msgs[0].Header.Get(headerFinishReason); got != "" {
		t.Errorf("the text's message ends the stream: %q", got)
	}
}

// What a request took of memory is in the usage of its last chunk where it was metered, and
// else nowhere.
func TestChunkCost(t *testing.T) {
	c := last()
	plain := encode(t, pb.Encoding_ENCODING_JSON, c)[0].Data
	if msgs := encode(t, pb.Encoding_ENCODING_TEXT, c); bytes.Contains(plain, []byte("expert_gb_s")) || msgs[1].Header.Get(headerExpertGBs) != "" {
		t.Errorf("%s", plain)
	}
	c.Usage.ExpertGbS, c.Usage.ColdStarts = proto.Float64(0.125), proto.Uint32(2)
	if got := encode(t, pb.Encoding_ENCODING_JSON, c)[0].Data; !bytes.Contains(got, []byte(`"expert_gb_s":0.125,"cold_starts":2`)) {
		t.Errorf("%s", got)
	}
	if h := encode(t, pb.Encoding_ENCODING_TEXT, c)[1].Header; h.Get(headerExpertGBs) != "0.125" || h.Get(headerColdStarts) != "2" {
		t.Errorf("%v", h)
	}
}

// What a brownout changed is there where it changed something, and else nowhere.
func TestChunkDegraded(t *testing.T) {
	c := last()
	if plain := encode(t, pb.Encoding_ENCODING_JSON, c)[0].Data; bytes.Contains(plain, []byte("degraded")) || bytes.Contains(plain, []byte("threshold")) {
		t.Errorf("%s", plain)
	}
	c.Usage.DegradedRows, c.Usage.DegradedTokens, c.Usage.LowestThreshold, c.Usage.UnitedWay = proto.Uint32(40), proto.Uint32(3), proto.Float64(0.6), proto.Uint32(8)
	if got := encode(t, pb.Encoding_ENCODING_JSON, c)[0].Data; !bytes.Contains(got, []byte(`"degraded_rows":40,"degraded_tokens":3,"lowest_threshold":0.6,"united_way":8`)) {
		t.Errorf("%s", got)
	}
	h := encode(t, pb.Encoding_ENCODING_TEXT, c)[1].Header
	if h.Get(headerDegraded) != "40" || h.Get(headerDegradedOf) != "3" || h.Get(headerThreshold) != "0.6" || h.Get(headerWay) != "8" {
		t.Errorf("%v", h)
	}
}

func TestRefusal(t *testing.T) {
	c := Refusal("r", errors.Join(&Error{Code: Overloaded, Message: "full", RetryAfter: 2e9}))
	if c.Index != -1 || c.FinishReason != "error" || c.Error.Code != "overloaded" || c.Error.RetryAfter != 2 || c.Usage == nil || c.Timings == nil {
		t.Errorf("%v", c)
	}
	if c := Refusal("r", errors.New("disk")); c.Error.Code != string(Internal) || c.Error.Message != Fault {
		t.Errorf("%v", c)
	}
}

// Messages in numbers that take far more memory than their bytes are not decoded.
func TestManyMessages(t *testing.T) {
	typed := nats.Header{schemas.HeaderContentType: {schemas.ContentProtobuf}}
	one := marshal(t, &pb.Prompt{Messages: []*pb.ChatMessage{{}}})
	list := func(n int) []byte { return []byte(`{"messages":[` + strings.Repeat("{},", n-1) + `{}]}`) }
	for _, tc := range []struct {
		name   string
		header nats.Header
		body   []byte
		says   string
	}{
		{"JSON", nil, list(maxObjects), "131073 messages"},
		{"protobuf", typed, bytes.Repeat(one, maxObjects+1), "131073 messages"},
		{"JSON within the bound", nil, list(maxObjects - 1), ""},
		{"protobuf within the bound", typed, bytes.Repeat(one, maxObjects), ""},
		{"strings in JSON", nil, []byte(`{"stop":[ ` + strings.Repeat(`"" ,`, maxObjects) + `""]}`), "131074 messages"},
		{"strings in protobuf", typed, marshal(t, &pb.Prompt{Stop: make([]string, maxObjects+1)}), "131073 messages"},
		{"strings within the bound", nil, []byte(`{"stop":[` + strings.Repeat(`"\"",`, maxObjects-2) + `""],"text":"["}`), ""},
		{"keys and values", nil, []byte(`{"messages":[` + strings.Repeat(`{"role":"","content":""},`, maxObjects-2) + `{}]}`), ""},
		{"braces in a text", nil, []byte(`{"text":"\"` + strings.Repeat("{", maxObjects+1) + `"}`), ""},
	} {
		_, _, err := DecodePrompt(tc.header, tc.body, false)
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.says)
		}
	}
}

// Half of a character is named, not taken for another one.
func TestHalfOfACharacter(t *testing.T) {
	for _, body := range []string{`{"text":"a\ud800b"}`, `{"text":"a\udc00"}`, `{"tools":[{"a":"\ud800"}]}`} {
		_, _, err := DecodePrompt(nil, []byte(body), false)
		check(t, err, BadRequest, "half of a surrogate pair")
	}
}

// What is read of a prompt follows from the model's context: nothing of what is longer than
// any prompt that fits it, and no more messages and strings than twice its tokens.
func TestLimits(t *testing.T) {
	typed := nats.Header{schemas.HeaderContentType: {schemas.ContentProtobuf}}
	l := Limits{Bytes: 60_000, Tokens: 1500}
	list := func(n int) []byte { return []byte(`{"messages":[` + strings.Repeat("{},", n-1) + `{}]}`) }
	one := marshal(t, &pb.Prompt{Messages: []*pb.ChatMessage{{}}})
	biases := func(n int) (body []byte) {
		for i := range n {
			body = fmt.Appendf(body, `,"%d":1`, i)
		}
		return fmt.Appendf(nil, `{"logit_bias":{%s}}`, body[1:])
	}
	biased := &pb.Prompt{LogitBias: map[uint32]float64{}}
	for i := range uint32(3001) {
		biased.LogitBias[i] = 1
	}
	ids := func(n int) []byte { return []byte(`{"input_ids":[` + strings.Repeat("1, ", n-1) + `-1.5]}`) }
	for _, tc := range []struct {
		name     string
		header   nats.Header
		body     []byte
		encoding pb.Encoding
		code     Code
		says     string
	}{
		{"long JSON", nil, append([]byte("{"), make([]byte, 60_000)...), pb.Encoding_ENCODING_JSON, PayloadTooLarge, "the body has 60001 bytes; what fits the context of 1500 tokens has 60000 at most"},
		{"long protobuf", typed, make([]byte, 60_001), pb.Encoding_ENCODING_PROTOBUF, PayloadTooLarge, "60001 bytes"},
		{"long text", nil, bytes.Repeat([]byte("a"), 60_001), pb.Encoding_ENCODING_TEXT, PayloadTooLarge, "60001 bytes"},
		{"many messages", nil, list(3000), pb.Encoding_ENCODING_JSON, BadRequest, "3001 messages"},
		{"many in protobuf", typed, bytes.Repeat(one, 3001), pb.Encoding_ENCODING_PROTOBUF, BadRequest, "3001 messages"},
		{"many ids", nil, ids(6001), pb.Encoding_ENCODING_JSON, BadRequest, "6001 numbers"},
		{"many ids in protobuf", typed, marshal(t, &pb.Prompt{InputIds: make([]uint32, 6001)}), pb.Encoding_ENCODING_PROTOBUF, BadRequest, "6001 numbers"},
		{"many biases", nil, biases(6001), pb.Encoding_ENCODING_JSON, BadRequest, "6001 numbers"},
		{"many biases in protobuf", typed, marshal(t, biased), pb.Encoding_ENCODING_PROTOBUF, BadRequest, "3001 messages"},
		{"unpacked", typed, bytes.Repeat([]byte{3 << 3, 1}, 6001), pb.Encoding_ENCODING_PROTOBUF, BadRequest, "6001 numbers"},
		{"as many ids as may be", nil, bytes.Replace(ids(6000), []byte("-1.5"), []byte("1"), 1), pb.Encoding_ENCODING_JSON, "", ""},
		{"ids in protobuf", typed, marshal(t, &pb.Prompt{InputIds: make([]uint32, 6000)}), pb.Encoding_ENCODING_PROTOBUF, "", ""},
		{"commas in a text", nil, []byte(`{"text":"` + strings.Repeat("[1,", 7000) + `"}`), pb.Encoding_ENCODING_JSON, "", ""},
		{"as many as may be", nil, list(2999), pb.Encoding_ENCODING_JSON, "", ""},
		{"in protobuf", typed, bytes.Repeat(one, 3000), pb.Encoding_ENCODING_PROTOBUF, "", ""},
	} {
		p, encoding, err := l.DecodePrompt(tc.header, tc.body, true)
		if encoding != tc.encoding || tc.code == PayloadTooLarge && p != nil {
			t.Errorf("%s: encoding %v, prompt %v", tc.name, encoding, p)
		}
		if tc.code == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		check(t, err, tc.code, tc.says)
	}
	if _, encoding, err := l.DecodePrompt(nil, make([]byte, 60_001), false); encoding != pb.Encoding_ENCODING_JSON || err == nil {
		t.Errorf("a long text where none may be: %v, %v", encoding, err)
	}
}
