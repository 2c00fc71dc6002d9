package bus

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"
)

// The error says the sum, what there is, and by how much to raise which limit.
func TestRoomError(t *testing.T) {
	const gib = 1 << 30
	for _, tc := range []struct {
		name string
		e    RoomError
		want string
	}{
		{
			"server", RoomError{Models: []string{"a", "b"}, Needs: 10 * gib, LogBytes: 8 * gib, There: gib, Limit: -1, Free: 4 * gib, Held: 2 * gib},
			"NATS has too little file storage for models a, b: streams and buckets take 10GiB, of which --log-bytes are 8GiB; " +
				"the server has 4GiB left of its max_file_store, other streams of this account take 2GiB; raise max_file_store by 5GiB, or lower --log-bytes of all services",
		},
		{
			"account", RoomError{Models: []string{"a"}, Memory: true, Needs: 3*gib + 1, Limit: 2 * gib, Held: gib, Free: gib},
			"NATS has too little memory for model a: the streams of tensors take 3073MiB; " +
				"the account may have 2GiB, and other streams of this account take 1GiB; raise the account's limit to 4097MiB, or give all services --hops core, which takes none",
		},
		{
			"cluster", RoomError{Models: []string{"a"}, Needs: 5 * gib, LogBytes: 4 * gib, Limit: -1, Free: -1, Held: 5 * gib, Left: []string{"x", "y"}},
			"NATS has too little file storage for model a: streams and buckets take 5GiB, of which --log-bytes are 4GiB; " +
				"what servers have is not known here, other streams of this account take 5GiB; raise max_file_store of each server to 10GiB or more, " +
				"or lower --log-bytes of all services; remove the streams that were made: x, y",
		},
	} {
		if got := tc.e.Error(); got != tc.want {
			t.Errorf("%s: %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

// A server's refusal is told from others, also where it comes from a cluster.
func TestNoStorage(t *testing.T) {
	for _, tc := range []struct {
		code         jetstream.ErrorCode
		text         string
		none, memory bool
	}{
		{codeNoStorage, "insufficient storage resources available", false, false},
		{codeNoMemory, "insufficient memory resources available", false, true},
		{codeNoPeers, "no suitable peers for placement, insufficient storage", false, false},
		{codeNoPeers, "no suitable peers for placement, peer offline, insufficient storage", true, false},
		{codeNoPeers, "no suitable peers for placement, peer offline", true, false},
		{codeStreamStoreFailed, "store failed", true, false},
	} {
		refusal, memory := noStorage(errors.Join(errors.New("making stream a"), &jetstream.APIError{ErrorCode: tc.code, Description: tc.text}))
		if (refusal == nil) != tc.none || memory != tc.memory {
			t.Errorf("%s: %v, memory %v", tc.text, refusal, memory)
		}
	}
	if err := WithCure(&jetstream.APIError{ErrorCode: codeNoPeers, Description: "insufficient storage"}); !strings.Contains(err.Error(), "raise max_file_store") {
		t.Errorf("%v", err)
	}
}

// Whatever there is, what fits is found to a step, and nothing larger is said to fit.
func TestLargest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		need, free := rapid.Int64Range(0, 1<<44).Draw(t, "need"), rapid.Int64Range(0, 1<<44).Draw(t, "free")
		asked := 0
		got, err := largest(need, func(bytes int64) (bool, error) { asked++; return bytes <= free, nil })
		if want := min(need, free) / roomStep * roomStep; err != nil || got != want || asked > 45 {
			t.Fatalf("%d after %d questions, %v; want %d", got, asked, err, want)
		}
	})
}

// A limit that is set to a text is never below the bytes that it stands for.
func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{0: "0MiB", 1: "1MiB", 1 << 20: "1MiB", 1<<20 + 1: "2MiB", 1 << 30: "1GiB", 10 << 30: "10GiB", 1<<30 + 1: "1025MiB", -5: "0MiB"} {
		if got := BytesText(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
