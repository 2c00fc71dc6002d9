package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A port for a broker that there is not, that is taken, or that others reach is refused.
func TestKafkaListenRefused(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }() // nobody has connected
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"--scaling none", []string{"--kafka-listen", "127.0.0.1:1", "--scaling", "none"}},
		{"--kafka names another", []string{"--kafka-listen", "127.0.0.1:1", "--kafka", "127.0.0.1:2"}},
		{"must be HOST:PORT", []string{"--kafka-listen", "here"}},
		{"on the loopback", []string{"--kafka-listen", "0.0.0.0:0"}},
		{"address already in use", []string{"--kafka-listen", taken.Addr().String()}},
	} {
		var out, errOut bytes.Buffer
		args := append([]string{"up", "--listen", freeAddress(t)}, tt.args...)
		code := runUntil(stopped, args, stdio{in: strings.NewReader(""), out: &out, err: &errOut})
		if code != exitUsage || !strings.Contains(errOut.String(), tt.want) {
			t.Errorf("%v: code %d, %s", tt.args, code, errOut.String())
		}
	}
}

// stored says whether a sample comes to a broker.
func stored(t *testing.T, c kafka.Config) bool {
	t.Helper()
	var sent atomic.Int64
	w, err := kafka.NewWriter(kafka.WriterSettings{Config: c, Logger: slog.New(slog.DiscardHandler), Count: func(outcome string, n int) {
		if outcome == kafka.Sent {
			sent.Add(int64(n))
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.Send(&pb.LoadSample{})
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience/10)
	defer cancel()
	err = w.Close(ctx)
	return err == nil && sent.Load() == 1
}

// Nobody outside reaches the broker of up, unless a port is asked for; with users it asks
// for the password that is in their folder.
func TestKafkaListen(t *testing.T) {
	closed := startPipeline(t, pipelineModels[0], tensor.BF16, schemas.HopsUnacked, 1, func(up *UpCmd) { up.Scaling = "static" })
	if at := closed.KafkaAddr(); at != "" {
		t.Errorf("it is reached at %s", at)
	}
	open := startPipeline(t, pipelineModels[0], tensor.BF16, schemas.HopsUnacked, 1, func(up *UpCmd) { up.Scaling, up.KafkaListen = "static", freeAddress(t) })
	if !stored(t, kafka.Config{Brokers: []string{open.KafkaAddr()}}) {
		t.Error("the port is not served")
	}
	dir := filepath.Join(t.TempDir(), "auth")
	guarded := startPipeline(t, pipelineModels[0], tensor.BF16, schemas.HopsUnacked, 1, func(up *UpCmd) {
		up.Scaling, up.KafkaListen, up.Auth = "static", freeAddress(t), authFlag{true, dir}
	})
	known := kafka.Config{
		Brokers: []string{guarded.KafkaAddr()}, SASL: "scram-sha-256", User: credentials.KafkaUser, PasswordFile: guarded.Users().KafkaPasswordFile(),
	}
	if !stored(t, known) {
		t.Error("the password does not let in")
	}
	said := kafkaGreeting(guarded.KafkaAddr(), guarded.Users())
	if want := "--kafka " + known.Brokers[0] + " --kafka-sasl scram-sha-256 --kafka-user switchyard --kafka-password-file " + known.PasswordFile; !strings.Contains(said, want) {
		t.Errorf("greeted with %q, want %q", said, want)
	}
	if stored(t, kafka.Config{Brokers: known.Brokers}) {
		t.Error("nobody was asked for a password")
	}
	known.PasswordFile = filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(known.PasswordFile, []byte("wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	if stored(t, known) {
		t.Error("a wrong password lets in")
	}
}
