package trace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const columnNames = "TIMESTAMP,ContextTokens,GeneratedTokens\n"

const good = columnNames + `2023-11-16 18:15:46.5000000,10,1
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109

`

func TestRead(t *testing.T) {
	rs, err := Read(strings.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	want := []Request{{0, 10, 1}, {180590 * time.Microsecond, 374, 44}, {4495169 * time.Microsecond, 396, 109}}
	if fmt.Sprint(rs) != fmt.Sprint(want) || tokensOf(rs) != 934 {
		t.Errorf("got %v, want %v", rs, want)
	}
	later := "\ufeffGeneratedTokens,TIMESTAMP,ContextTokens\r\n7,2024-05-10 00:00:00.009930+00:00,5\r\n"
	if rs, err := Read(strings.NewReader(later)); err != nil || rs[0] != (Request{0, 5, 7}) {
		t.Errorf("the form of 2024: %v, %v", rs, err)
	}
}

const lined = `{"timestamp": 27.5, "input_length": 7, "output_length": 4}
{"timestamp": 3000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}

`

func TestMooncake(t *testing.T) {
	rs, err := Read(strings.NewReader(lined))
	want := []Request{{0, 7, 4}, {2972500 * time.Microsecond, 6758, 500}}
	if err != nil || fmt.Sprint(rs) != fmt.Sprint(want) {
		t.Errorf("got %v, error %v, want %v", rs, err, want)
	}
	for _, tc := range []struct{ name, from, to, want string }{
		{"first", `{"timestamp": 27.5`, `{timestamp: 27.5`, "line 1 of the trace: it is no JSON object"},
		{"missing", `"output_length": 4`, `"output": 4`, "line 1 of the trace: timestamp, input_length or output_length is missing"},
		{"negative", "27.5", "-27.5", "line 1 of the trace: timestamp is -27.5; it must be milliseconds from 0"},
		{"far", "3000", "1e300", "timestamp is 1e+300"},
		{"tokens", "6758", "-6758", "line 2 of the trace: input_length is -6758; it must be a whole number from 0 to 1048576"},
		{"no tokens", "6758", "0", "line 2 of the trace: its prompt has no tokens"},
		{"fraction", ": 7,", ": 7.5,", "line 1 of the trace"},
		{"back", "27.5", "3000.5", "line 2 of the trace: it comes 500µs before the line above it; sort the lines by time"},
		{"no answer", "\"output_length\": 4", "\"output_length\": 0", "line 1 of the trace: its answer has no tokens"},
		{"mixed", "{\"timestamp\": 3000", "2023-11-16,", "line 2 of the trace: it is no JSON object like the first line"},
	} {
		text := strings.Replace(lined, tc.from, tc.to, 1)
		if _, err := Read(strings.NewReader(text)); text == lined || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct{ name, from, to, want string }{
		{"no column", "ContextTokens", "Context", "line 1 of the trace: there is no column ContextTokens"},
		{"time", "2023-11-16 18:15:50.9951690", "noon", `line 4 of the trace: TIMESTAMP is "noon"`},
		{"negative", ",374,", ",-1,", `line 3 of the trace: ContextTokens is "-1"`},
		{"no tokens", ",374,", ",0,", "line 3 of the trace: its prompt has no tokens; a request has at least one: leave the line out"},
		{"too many tokens", ",109", ",1048577", "GeneratedTokens"},
		{"fraction", ",44", ",4.5", "GeneratedTokens"},
		{"short line", ",10,1", ",10", "line 2 of the trace: there is no GeneratedTokens; it has 2 fields"},
		{"long line", ",10,1", ",10," + strings.Repeat("1", mostLine), "line 2 of the trace: the line has more than 65536 bytes"},
		{"months", "2023-11-16 18:15:50", "2023-12-31 18:15:50", "line 4 of the trace: it comes 1080h0m4.495169s behind the first request; a trace may span 744h0m0s: cut it"},
		{"no answer", ",44", ",0", "line 3 of the trace: its answer has no tokens; a request has at least one: leave the line out"},
		{"back", "18:15:46.68", "18:15:46.48", "line 3 of the trace: it comes 19.41ms before the line above it; sort the lines by time"},
		{"gap", ",374,44\n", ",374,44\n\n", "line 4 of the trace: it is empty, and others follow; leave it out"},
		{"no field", ",374,44", ",,44", `line 3 of the trace: ContextTokens is ""; it must be a whole number`},
		{"hours", good, "hour,requests\n0,1\n", "line 1 of the trace: it has requests by the hour, without tokens; name a trace whose requests lend theirs, with --lengths"},
		{"header only", strings.TrimPrefix(good, columnNames), "", "no request follows the header"},
		{"empty", good, "", "the trace is empty"},
	} {
		_, err := Read(strings.NewReader(strings.Replace(good, tc.from, tc.to, 1)))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestPeak(t *testing.T) {
	var rs []Request
	for i, n := range []int{5, 1, 9, 9, 1} {
		rs = append(rs, Request{At: time.Duration(i) * time.Second, Context: n})
	}
	for _, tc := range []struct {
		length time.Duration
		want   int
	}{{time.Second, 9}, {2 * time.Second, 18}, {4 * time.Second, 24}, {time.Hour, 25}} {
		got := Peak(rs, tc.length)
		if tokensOf(got) != tc.want || got[0].At != 0 {
			t.Errorf("%v: %v", tc.length, got)
		}
	}
	if Peak(nil, time.Second) != nil {
		t.Error("a peak of nothing")
	}
}

// A trace is the sum of its slices.
func TestSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rs []Request
		at := time.Duration(0)
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			at += time.Duration(rapid.IntRange(0, 5).Draw(t, "pause")) * time.Second
			rs = append(rs, Request{At: at, Context: rapid.IntRange(0, 9).Draw(t, "context")})
		}
		n, size := 0, time.Duration(rapid.IntRange(1, 7).Draw(t, "size"))*time.Second
		for from := time.Duration(0); from <= at; from += size {
			n += len(Slice(rs, from, from+size))
		}
		if n != len(rs) {
			t.Fatalf("%d requests in slices of %d", n, len(rs))
		}
		if p := Peak(rs, size); tokensOf(p) > tokensOf(rs) || len(rs) > 0 && p[len(p)-1].At >= size {
			t.Fatalf("peak %v", p)
		}
	})
}

// FuzzRead wants an error or requests in order and within bounds.
func FuzzRead(f *testing.F) {
	f.Add(good)
	f.Add(lined)
	f.Add("TIMESTAMP,ContextTokens,GeneratedTokens\n0000-01-01 00:00:00,0,0\n9999-12-31 23:59:59,0,0\n")
	f.Fuzz(func(t *testing.T, data string) {
		rs, err := Read(strings.NewReader(data))
		if err != nil {
			return
		}
		last := time.Duration(0)
		for _, r := range rs {
			if r.At < last || r.At > mostSpan || r.Context < 0 || r.Generated < 0 || r.Tokens() > 2*mostTokens {
				t.Fatalf("%+v", r)
			}
			last = r.At
		}
		Peak(rs, time.Minute)
	})
}

// tokensOf are all tokens of the requests.
func tokensOf(rs []Request) (n int) {
	for _, r := range rs {
		n += r.Tokens()
	}
	return n
}
