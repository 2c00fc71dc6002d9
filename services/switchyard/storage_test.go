package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// A server with less storage than the streams may take ends a service with the sum, what
// there is and what to change, and has none of the streams.
func TestLittleStorage(t *testing.T) {
	for _, tc := range []struct {
		name          string
		store, memory int64
		args          []string
		want          string
	}{
		{
			"file", 1 << 30, 1 << 30, []string{"--log-bytes", "2GiB"},
			"NATS has too little file storage for model demo: streams and buckets take 3392MiB, of which --log-bytes are 2GiB; " +
				"the server has 1GiB left of its max_file_store, other streams of this account take 0MiB; raise max_file_store by 2368MiB, or lower --log-bytes of all services",
		},
		{
			"memory", 8 << 30, 512 << 20, nil,
			"NATS has too little memory for model demo: the streams of tensors take 576MiB; " +
				"the server has 512MiB left of its max_memory_store, other streams of this account take 0MiB; raise max_memory_store by 64MiB, or give all services --hops core, which takes none",
		},
	} {
		srv := startNATS(t, &server.Options{JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: tc.store, JetStreamMaxMemory: tc.memory})
		got := invoke("", append([]string{"aggregator", "--nats", srv.ClientURL()}, tc.args...)...)
		if got.Code != cli.ExitFailed || !strings.Contains(got.Err, tc.want) || strings.Count(got.Err, "switchyard: ") > 1 {
			t.Errorf("%s: got %+v, want %q", tc.name, got, tc.want)
		}
		if left, err := srv.Jsz(nil); err != nil || left.Streams > 0 {
			t.Errorf("%s: %d streams are left, %v, after %q", tc.name, left.Streams, err, got.Err)
		}
	}
}
