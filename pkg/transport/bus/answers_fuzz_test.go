package bus

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
)

// An acknowledgement is read alike the quick way and the slow one, and is a place in
// the stream or an error.
func FuzzAck(f *testing.F) {
	for _, s := range []string{
		`{"stream":"S", "seq":12}`, `{"stream":"S","seq":12}`, `{"stream":"S","domain":"hub","seq":12}`, `{"stream":"S", "seq":12,"duplicate": true}`, `{"stream":"S", "seq":0}`,
		`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"S","seq":0}`,
		`{"stream":"S","error":{"code":400}, "seq":7}`, `{"stream":"S", "seq":18446744073709551617}`, `{"stream":"S", "seq":012}`, `+OK`, ``,
	} {
		f.Add([]byte(s), "")
	}
	f.Add([]byte{}, "503")
	f.Fuzz(func(t *testing.T, data []byte, status string) {
		seq, err := parseAck(&nats.Msg{Data: data, Header: nats.Header{"Status": {status}}})
		if (seq == 0) != (err != nil) {
			t.Fatalf("sequence %d, error %v", seq, err)
		}
		var slow struct {
			Error json.RawMessage `json:"error"`
			Seq   uint64          `json:"seq"`
		}
		if quick, ok := quickAck(data); ok && json.Valid(data) {
			if err := json.Unmarshal(data, &slow); err != nil || slow.Seq != quick || len(slow.Error) > 0 {
				t.Errorf("%d the quick way, %d the slow one (%v, error %s)", quick, slow.Seq, err, slow.Error)
			}
		}
	})
}

// A server's answer is a message, or an error.
func FuzzStored(f *testing.F) {
	for _, s := range []string{
		`{"message":{"subject":"a.b","seq":3,"data":"aGk=","time":"2026-01-02T03:04:05.6Z"}}`, `{"error":{"code":404,"err_code":10037}}`, `{}`, `{"message":null}`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseStored(data)
		if err != nil && (fmt.Sprint(err) == "" || m.Subject != "" || m.Data != nil || m.Sequence != 0) {
			t.Errorf("%+v with error %v", m, err)
		}
		if len(m.Data) > len(data) {
			t.Errorf("%d bytes out of %d", len(m.Data), len(data))
		}
	})
}
