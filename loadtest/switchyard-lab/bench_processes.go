package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/switchyard/switchyard/loadtest/bench"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// pipelineServices are those that a token needs, each of which is a process.
var pipelineServices = []string{"tokenizer", "attention", "gate", "expert", "aggregator"}

// checkProcesses refuses what services as processes cannot be told.
func (c *BenchCmd) checkProcesses() error {
	switch {
	case !c.Processes:
		return nil
	case c.Synthetic != "" || c.Grouping != "planner" || c.Device != "cpu" || gpus.IsGPU(c.AttentionDevice):
		return cli.Usage(errors.New("--processes measures services that read a model's folder, on the cpu, with the planner's functions; leave out --synthetic, --grouping and devices"))
	case c.Rescale || c.Transfer || len(c.Rows) > 0:
		return cli.Usage(errors.New("--processes measures tokens a second; leave out --rescale, --transfer and --rows"))
	}
	return nil
}

// echoConnect is how long the process that answers hops waits for the server.
const echoConnect = 10 * time.Second

// fleet is the services as processes, and what reaches them.
type fleet struct {
	e        *cli.Env
	c        *BenchCmd
	url      string
	children []*up.Child
	ends     []func() // the last begun first
}

// apart starts the services as processes of their own, with the server of --nats or one in this process.
func (c *BenchCmd) apart(ctx context.Context, e *cli.Env, name string) (_ *bench.Apart, err error) {
	f := &fleet{e: e, c: c, url: e.NATS}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if e.NATS == cli.DefaultNATS {
		if err := f.serve(); err != nil {
			return nil, err
		}
	}
	for _, service := range pipelineServices {
		if err := f.start(ctx, nil, append([]string{service}, c.serviceFlags(service)...)...); err != nil {
			return nil, err
		}
	}
	a := &bench.Apart{Failure: f.failure, Close: func() error { f.close(); return nil }}
	if a.Bare, err = f.echo(ctx); err != nil {
		return nil, err
	}
	config := e.BusConfig()
	config.URL = f.url
	if a.Conn, err = bus.Connect(ctx, config, bus.Settings{Name: "switchyard bench", Logger: e.Log, Release: cli.Version}); err != nil {
		return nil, err
	}
	f.ends = append(f.ends, a.Conn.Close)
	a.Client = client.New(a.Conn.NATS(), client.Settings{Prefix: e.Prefix, Model: name})
	return a, nil
}

// serve starts a server that other processes reach.
func (f *fleet) serve() error {
	dir, err := os.MkdirTemp("", "switchyard-bench-")
	if err != nil {
		return fmt.Errorf("making a temporary data folder: %w", err)
	}
	f.ends = append(f.ends, func() { _ = os.RemoveAll(dir) })
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: dir, Listen: "127.0.0.1:0", Logger: f.e.Log})
	if err != nil {
		return err
	}
	f.ends, f.url = append(f.ends, srv.Shutdown), srv.URL()
	return nil
}

// serviceFlags are those of a service which make it what it is in the pipeline in one process.
func (c *BenchCmd) serviceFlags(service string) []string {
	flags := []string{"--wire", c.Wire, "--hops", c.Hops, "--precision", c.Precision, "--kv-cache-dtype", cmp.Or(c.KVCacheDtype, string(model.KVAuto)), "--threads", strconv.Itoa(c.Threads), "--max-model-len", strconv.Itoa(bench.ContextFor(c.PromptTokens))}
	flags = append(flags, c.Arguments()...)
	if c.Model != "" {
		flags = append(flags, "--model", c.Model)
	}
	switch service {
	case "tokenizer":
		flags = append(flags, "--canary-every", "0")
	case "attention":
		flags = append(flags, "--kv-memory", strconv.Itoa(bench.KVBytes), "--max-rows", strconv.Itoa(c.MaxRows), "--microbatches", strconv.Itoa(c.Microbatches),
			"--min-rows", strconv.Itoa(c.MinRows), "--speculate", "0", "--no-prefix-cache")
	}
	return flags
}

// start starts a process with what reaches the server.
func (f *fleet) start(ctx context.Context, out io.Writer, args ...string) error {
	g := f.e.Globals
	args = append(args, "--nats", f.url, "--prefix", g.Prefix, "--log-level", "error")
	for name, value := range map[string]string{"--creds": g.Creds, "--tls-ca": g.TLSCA, "--tls-cert": g.TLSCert, "--tls-key": g.TLSKey} {
		if value != "" {
			args = append(args, name, value)
		}
	}
	if g.Insecure {
		args = append(args, "--insecure")
	}
	child, err := up.StartChild(ctx, f.c.process, out, args...)
	if err == nil {
		f.children = append(f.children, child)
	}
	return err
}

// echo starts the process that answers hops, and returns the address at which it answers bare bytes.
func (f *fleet) echo(ctx context.Context) (addr string, err error) {
	r, w := io.Pipe()
	if err := f.start(ctx, w, "bench", "--echo", "--hops", f.c.Hops); err != nil {
		return "", err
	}
	answering := f.children[len(f.children)-1]
	go func() { <-answering.Ended; _ = w.Close() }()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		return "", errors.Join(fmt.Errorf("the process that answers hops has ended: %w", err), answering.Failure())
	}
	return strings.TrimSpace(line), nil
}

// failure is of a process that has ended.
func (f *fleet) failure() error {
	for _, c := range f.children {
		select {
		case <-c.Ended:
			return fmt.Errorf("a process of the services has ended: %s: %w", strings.Join(c.Cmd.Args[1:2], " "), errors.Join(c.Failure()))
		default:
		}
	}
	return nil
}

// close ends the processes, then the connection and the server.
func (f *fleet) close() {
	up.StopAll(f.children)
	for i := len(f.ends) - 1; i >= 0; i-- {
		f.ends[i]()
	}
}

// echoing answers the hops of the process that has started this one.
func (c *BenchCmd) echoing(ctx context.Context, e *cli.Env) error {
	conn, err := e.Connect(ctx, "bench", cli.ConnectFlags{ConnectTimeout: echoConnect})
	if err != nil {
		return err
	}
	defer conn.Close()
	stop, err := bench.Echo(ctx, conn, e.Prefix, schemas.Hops(c.Hops))
	if err != nil {
		return err
	}
	defer stop()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening on the loopback: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	if _, err := fmt.Fprintln(e.Out, l.Addr()); err != nil {
		return err
	}
	bench.EchoBare(l)
	return nil
}
