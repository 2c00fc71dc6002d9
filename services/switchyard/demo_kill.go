package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

const (
	// standby is how many attention processes there are: one makes the answer, one goes on.
	standby = 2
	// killAt is the part of the answer behind which the first one is killed.
	killAt = 3
	// joinWithin bounds the wait for the processes.
	joinWithin = time.Minute
)

// kill shows that an answer survives the process that makes it.
func (c *DemoCmd) kill(ctx context.Context, e *cli.Env) (err error) {
	settings, err := up.InProcess(ctx, e, func(up *up.Cmd) { up.Listen = "127.0.0.1:0" })
	if err != nil {
		return err
	}
	settings.Count["attention"] = 0
	y, err := up.OpenCluster(ctx, settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.Close()) }()
	crew := &crew{processes: map[int]*up.Child{}, program: c.process, flags: c.Arguments()}
	defer crew.stop()
	for range standby {
		if err := crew.start(ctx, e, y.URL()); err != nil {
			return err
		}
	}
	conn, err := y.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := crew.join(ctx, conn, y); err != nil {
		return err
	}
	e.Say(fmt.Sprintf("ready: NATS and all services but attention in one process, attention in %d more\n\n", standby), "ready")
	return c.compare(ctx, e, conn, y, crew)
}

// compare asks twice for the same answer, and kills a process in the second one.
func (c *DemoCmd) compare(ctx context.Context, e *cli.Env, conn *bus.Conn, y *cluster.Cluster, crew *crew) error {
	producer := client.New(conn.NATS(), client.Settings{Prefix: e.Prefix, Model: y.Settings.Node.ModelName()})
	var whole []uint32
	if _, err := c.each(ctx, producer, func(chunk *pb.Chunk) error {
		whole = append(whole, chunk.TokenIds...)
		return nil
	}); err != nil {
		return fmt.Errorf("the answer that nothing disturbs: %w", err)
	}
	stop, err := crew.watch(conn, y)
	if err != nil {
		return err
	}
	defer stop()
	out := &chunkPrinter{w: e.Out}
	out.write([]byte(c.Text))
	var made []uint32
	var killed, stalled time.Duration
	began := time.Now()
	last, err := c.each(ctx, producer, func(chunk *pb.Chunk) error {
		if killed > 0 && stalled == 0 {
			stalled = time.Since(began) - killed
		}
		made = append(made, chunk.TokenIds...)
		if out.print(chunk); killed == 0 && len(made) >= len(whole)/killAt {
			who, err := crew.kill(chunk.RequestId)
			if err != nil {
				return err
			}
			if who != "" {
				killed = time.Since(began)
				out.write([]byte("\n  ── kill -9 " + who + " ──\n"))
			}
		}
		return out.broken
	})
	if err != nil {
		return err
	}
	if killed == 0 {
		return errors.New("no process was killed: none has announced a step of the answer")
	}
	out.write([]byte("\n\n"))
	e.Say(fmt.Sprintf("the next token came %v later, from the other process\n", stalled.Round(time.Millisecond)), "survived", "stalled_seconds", stalled.Seconds())
	for i := range max(len(whole), len(made)) {
		if i >= len(whole) || i >= len(made) || whole[i] != made[i] {
			return fmt.Errorf("token %d is another one than without the kill", i)
		}
	}
	e.Say(fmt.Sprintf("all %d tokens are those of an answer that nothing disturbs\n%s\n", len(made), pace(last)), "identical", "tokens", len(made))
	return out.broken
}

// each asks, hands over every chunk, and returns the last one.
func (c *DemoCmd) each(ctx context.Context, producer *client.Client, take func(*pb.Chunk) error) (last *pb.Chunk, err error) {
	stream, err := producer.Prompt(ctx, &pb.Prompt{Text: c.Text, MaxTokens: c.MaxTokens})
	if err != nil {
		return nil, err
	}
	for chunk, err := range stream.Chunks() {
		if err == nil {
			err = client.Failure(chunk)
		}
		if err == nil {
			err = take(chunk)
		}
		if err != nil {
			return nil, err
		}
		last = chunk
	}
	return last, nil
}

// crew is processes with one service each.
type crew struct {
	program   up.ProgramFunc
	flags     []string          // of each process
	processes map[int]*up.Child // by their ids
	replicas  map[string]int    // whose process has which id

	mu     sync.Mutex
	owners map[string]string // of requests
}

// start starts one more.
func (r *crew) start(ctx context.Context, e *cli.Env, url string) error {
	args := append([]string{"attention", "--nats", url, "--prefix", e.Prefix, "--log-level", "error"}, r.flags...)
	c, err := up.StartChild(ctx, r.program, nil, args...)
	if err == nil {
		r.processes[c.Cmd.Process.Pid] = c
	}
	return err
}

// join waits until all are members and tokens flow.
func (r *crew) join(ctx context.Context, conn *bus.Conn, y *cluster.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	if err := y.Ready(ctx); err != nil {
		return err
	}
	members := y.Settings.Node.Names().Bucket("members")
	for {
		kv, err := conn.JetStream().KeyValue(ctx, members)
		if err != nil {
			return fmt.Errorf("looking for the processes: %w", err)
		}
		entries, err := bus.Entries(ctx, kv)
		if err != nil {
			return fmt.Errorf("looking for the processes: %w", err)
		}
		r.replicas = map[string]int{}
		for _, entry := range entries {
			m := &pb.Member{}
			if proto.Unmarshal(entry.Value(), m) == nil && m.Ready && r.processes[int(m.Pid)] != nil {
				r.replicas[m.Id] = int(m.Pid)
			}
		}
		if len(r.replicas) == len(r.processes) {
			return nil
		}
		if err := pause.For(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d processes have come: %w", len(r.replicas), len(r.processes), err)
		}
	}
}

// watch notes which replica makes the tokens of each request, as it announces its steps.
func (r *crew) watch(conn *bus.Conn, y *cluster.Cluster) (stop func(), err error) {
	r.owners = map[string]string{}
	sub, err := conn.NATS().Subscribe(y.Settings.Node.Names().Subjects.Step(), func(m *nats.Msg) {
		step := &pb.Step{}
		if proto.Unmarshal(m.Data, step) != nil {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, run := range step.Runs {
			r.owners[run.Sequence] = step.Owner
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listening to steps: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// kill kills the process that makes a request's tokens, and says which that was; empty: that is
// not known yet.
func (r *crew) kill(request string) (who string, err error) {
	r.mu.Lock()
	owner := r.owners[request]
	r.mu.Unlock()
	c := r.processes[r.replicas[owner]]
	if c == nil {
		return "", nil
	}
	if err := c.Cmd.Process.Kill(); err != nil {
		return "", fmt.Errorf("killing %s: %w", owner, err)
	}
	return fmt.Sprintf("%s (process %d)", owner, c.Cmd.Process.Pid), nil
}

func (r *crew) stop() {
	up.StopAll(slices.Collect(maps.Values(r.processes)))
}
