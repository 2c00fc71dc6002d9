package wire

import (
	"bufio"
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/heartbeat"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/leavegroup"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/protocol/syncgroup"

	"github.com/switchyard/switchyard/internal/testkit"
)

func TestWalk(t *testing.T) {
	for _, tt := range []struct {
		name, shape string
		in          []byte
		seen        string
		ok          bool
	}{
		{"nothing", "", nil, "", true},
		{"left over", "", []byte{1}, "", false},
		{"number", "4", []byte{0, 0, 0, 1}, "", true},
		{"number cut off", "4", []byte{0, 0, 0}, "", false},
		{"text", "t", []byte{0, 1, 'a'}, "ta", true},
		{"no text", "t", []byte{0xff, 0xff}, "t", true},
		{"text of -2", "t", []byte{0xff, 0xfe}, "", false},
		{"text cut off", "s", []byte{0, 2, 'a'}, "", false},
		{"long text", "s", append([]byte{0x7f, 0xff}, make([]byte, 0x7fff)...), "", false},
		{"bytes", "r", []byte{0, 0, 0, 1, 'a'}, "ra", true},
		{"bytes cut off", "r", []byte{0x7f, 0xff, 0xff, 0xff, 'a'}, "", false},
		{"array", "[t]1", []byte{0, 0, 0, 2, 0, 1, 'a', 0, 1, 'b', 9}, "tatb", true},
		{"no array", "[t]1", []byte{0xff, 0xff, 0xff, 0xff, 9}, "", true},
		{"array of -2", "[t]", []byte{0xff, 0xff, 0xff, 0xfe}, "", false},
		{"array that claims", "[1]", []byte{0x7f, 0xff, 0xff, 0xff, 1}, "", false},
		{"array cut off", "[2]", []byte{0, 0, 0, 2, 0, 1}, "", false},
		{"arrays in arrays", "[[1]t]1", []byte{0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 0, 1, 'a', 9}, "ta", true},
	} {
		seen := ""
		err := Walk(tt.shape, tt.in, func(f Field) error {
			seen += string(f.Kind) + string(tt.in[f.From:f.To])
			return nil
		})
		if (err == nil) != tt.ok || tt.ok && seen != tt.seen || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: saw %q, %v", tt.name, seen, err)
		}
	}
}

// TestMember has what one member of a group may do to another.
func TestMember(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind byte
		in   []byte
		ok   bool
	}{
		{"nothing", 'A', nil, true},
		{"assignment", 'A', []byte{0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff}, true},
		{"assignment of 2147483647 topics", 'A', []byte{0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0}, false},
		{"subscription", 'S', []byte{0, 1, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 0, 9}, true},
		{"subscription of 2147483647 topics", 'S', []byte{0, 0, 0x7f, 0xff, 0xff, 0xff}, false},
	} {
		if err := CheckMember(tt.kind, tt.in); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestShapes(t *testing.T) {
	for _, a := range Known() {
		for v := a.Min; v <= a.Max; v++ {
			for _, shape := range []string{a.Request(v), a.Answer(v)} {
				if strings.Count(shape, "[") != strings.Count(shape, "]") || strings.Trim(shape, "1248[]brSAstgyodxpnacwjkV") != "" {
					t.Errorf("%s %d: %q", a.Name, v, shape)
				}
			}
		}
	}
}

// filled is a message with two elements in each array, and something in each text.
func filled(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[protocol.RecordSet]() {
			v.Set(reflect.ValueOf(protocol.RecordSet{Version: 2, Records: protocol.NewRecordReader(protocol.Record{Value: protocol.NewBytes([]byte("v"))})}))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				filled(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			filled(v.Index(i))
		}
	case reflect.String:
		v.SetString("text")
	}
}

// The library writes messages of these shapes in each version, so that shapes are those
// of the protocol and not only of some version of it.
func TestShapesOfLibrary(t *testing.T) {
	for _, m := range []struct{ request, answer protocol.Message }{
		{&produce.Request{}, &produce.Response{}}, {&fetch.Request{}, &fetch.Response{}}, {&listoffsets.Request{}, &listoffsets.Response{}},
		{&metadata.Request{}, &metadata.Response{}}, {&offsetcommit.Request{}, &offsetcommit.Response{}}, {&offsetfetch.Request{}, &offsetfetch.Response{}},
		{&findcoordinator.Request{}, &findcoordinator.Response{}}, {&joingroup.Request{}, &joingroup.Response{}}, {&heartbeat.Request{}, &heartbeat.Response{}},
		{&leavegroup.Request{}, &leavegroup.Response{}}, {&syncgroup.Request{}, &syncgroup.Response{}}, {&saslhandshake.Request{}, &saslhandshake.Response{}},
		{&createtopics.Request{}, &createtopics.Response{}}, {&saslauthenticate.Request{}, &saslauthenticate.Response{}},
	} {
		key := m.request.ApiKey()
		for _, a := range Known() {
			for v := a.Min; v <= a.Max && a.Key == int16(key); v++ {
				filled(reflect.ValueOf(m.request).Elem())
				filled(reflect.ValueOf(m.answer).Elem())
				if v < key.MinVersion() || v > key.MaxVersion() {
					continue // the library cannot
				}
				var b bytes.Buffer
				if err := protocol.WriteRequest(&b, v, 1, "me", m.request); err != nil {
					t.Fatal(err)
				}
				h, body, err := ParseHeader(b.Bytes()[4:])
				if err != nil || h != (Header{a.Key, v, 1}) {
					t.Fatalf("%s %d: %+v, %v", a.Name, v, h, err)
				}
				if err := Walk(a.Request(v), body, nil); err != nil {
					t.Errorf("a request %s %d: %v", a.Name, v, err)
				}
				b.Reset()
				if err := protocol.WriteResponse(&b, v, 1, m.answer); err != nil {
					t.Fatal(err)
				}
				if err := Walk(a.Answer(v), b.Bytes()[8:], nil); err != nil {
					t.Errorf("an answer to %s %d: %v", a.Name, v, err)
				}
			}
		}
	}
}

func TestFrames(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []byte
		want error // nil: it is one
	}{
		{"good", []byte{0, 0, 0, 5, 1, 2, 3, 4, 5}, nil},
		{"2147483647 bytes", []byte{0x7f, 0xff, 0xff, 0xff}, ErrTooLarge},
		{"4294967295 bytes", []byte{0xff, 0xff, 0xff, 0xff}, ErrTooLarge},
		{"no number", []byte{0, 0, 0, 3, 1, 2, 3}, ErrMalformed},
	} {
		in := bufio.NewReader(bytes.NewReader(tt.in))
		size, err := ReadSize(in, 1<<20)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if err == nil {
			if body, err := ReadBody(in, size); err != nil || len(body) != size {
				t.Errorf("%s: %d bytes, %v", tt.name, len(body), err)
			}
		}
	}
	before := testkit.Memory()
	if _, err := ReadBody(bytes.NewReader([]byte{1}), 1<<30); err == nil || testkit.Memory()-before > 1<<20 {
		t.Errorf("%v, and memory has grown by %d", err, testkit.Memory()-before)
	}
}

// FuzzWalk wants any bytes to be a message or an error, of any kind and version.
func FuzzWalk(f *testing.F) {
	f.Add(int16(Metadata), int16(1), []byte{0, 0, 0, 1, 0, 1, 't'})
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		a, err := Find(key, version)
		if err != nil {
			return
		}
		for _, shape := range []string{a.Request(version), a.Answer(version)} {
			if err := Walk(shape, body, func(f Field) error { _ = body[f.From:f.To]; return nil }); err != nil && !errors.Is(err, ErrMalformed) {
				t.Error(err)
			}
		}
	})
}
