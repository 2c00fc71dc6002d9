// Package cluster runs a model's services in this process: some of them as one
// process of a deployment, or all of them with a NATS server (the in-process
// cluster).
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/kafka/embedded"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/pkg/transport/weights"
)

// Settings are a whole pipeline in one process.
type Settings struct {
	Node     *Node
	Services Services
	// Count is the replicas of each service.
	Count map[string]int
	// Beside are further models on the same server.
	Beside []Beside
	// Listen is the server's address; empty: only this process reaches it.
	Listen string
	// Data is the server's folder; empty: a temporary one.
	Data string
	// Insecure allows an address off the loopback.
	Insecure bool
	// Sync writes through to the disk before anything is acknowledged.
	Sync bool
	// Auth is whom the server lets in; nil: everybody.
	Auth *Auth
	// EmbedKafka starts a Kafka broker in this process unless the services have one.
	EmbedKafka bool
	// KafkaListen is where other processes reach that broker, on the loopback; empty: only
	// this process does. KafkaTopic is the topic that it has; empty: the default one.
	KafkaListen, KafkaTopic string
}

// Auth is users with rights of their own, and TLS.
type Auth struct {
	// Dir is their folder, which is made if it does not exist; empty: one in the data folder.
	Dir string
	// For is what a folder is made for, and what its users must have rights for.
	For credentials.Settings
}

// DrainTime is how long a stopping process may take to finish or hand over.
const DrainTime = 10 * time.Second

// Beside is a further model of the process, with services of its own. Where samples of loads
// go is the same for all models.
type Beside struct {
	Node     *Node
	Services Services
	Count    map[string]int
}

// nodes returns the nodes of all models.
func (s *Settings) nodes() []*Node {
	all := []*Node{s.Node}
	for _, b := range s.Beside {
		all = append(all, b.Node)
	}
	return all
}

// Close closes the nodes of all models; the first one's last, which others share.
func (s *Settings) Close() error {
	var errs []error
	for _, n := range slices.Backward(s.nodes()) {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}

// Cluster is a running pipeline in one process: server, services and all.
type Cluster struct {
	Settings Settings
	Pipeline *Pipeline // of the first model

	beside []*Pipeline
	server *natsserver.Server
	broker *embedded.Broker // nil: none in this process
	temp   string
	stop   context.CancelFunc
	ended  chan error
	broken chan error // the first weights that a host cannot load
}

// Open starts everything and returns at once; Ready waits for it. An error is
// of the server: its address or folder cannot be used. The nodes are closed then.
func Open(ctx context.Context, s Settings) (*Cluster, error) {
	y := &Cluster{Settings: s, ended: make(chan error, 1), broken: make(chan error, 1)}
	y.Settings.Services.Expert.Unloadable = y.cannotLoad
	err := y.startServer()
	if err == nil {
		err = y.embedKafka()
	}
	if err != nil {
		return nil, errors.Join(err, y.cleanUp())
	}
	for _, n := range s.nodes() {
		n.inProcess = y.server
	}
	y.Pipeline = NewPipeline(s.Node, y.Settings.Services, s.Count)
	for _, b := range s.Beside {
		b.Services.Kafka, b.Services.linger = y.Settings.Services.Kafka, y.Settings.Services.linger
		b.Services.Expert.Unloadable = y.cannotLoad
		y.beside = append(y.beside, NewPipeline(b.Node, b.Services, b.Count))
	}
	ctx, y.stop = context.WithCancel(ctx)
	go func() { y.ended <- y.serve(ctx) }()
	return y, nil
}

func (y *Cluster) pipelines() []*Pipeline { return append([]*Pipeline{y.Pipeline}, y.beside...) }

// serve runs all pipelines until ctx ends, or one of them does.
func (y *Cluster) serve(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	all := y.pipelines()
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, p := range all {
		running.Go(func() {
			defer end()
			errs[i] = p.Serve(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

func (y *Cluster) startServer() (err error) {
	dir := y.Settings.Data
	if dir == "" {
		if dir, err = os.MkdirTemp("", "switchyard-"); err != nil {
			return fmt.Errorf("making a temporary data folder: %w", err)
		}
		y.temp = dir
	}
	n := natsserver.Settings{
		StoreDir: dir, Listen: y.Settings.Listen, Insecure: y.Settings.Insecure, SyncAlways: y.Settings.Sync, Logger: y.Settings.Node.Shared.Logger,
	}
	if y.Settings.Auth != nil {
		if err := y.guard(dir, &n); err != nil {
			return err
		}
	}
	y.server, err = natsserver.Start(n)
	return err
}

// guard gives server and services the users of a folder.
func (y *Cluster) guard(data string, n *natsserver.Settings) error {
	a := y.Settings.Auth
	f, err := credentials.Ensure(cmp.Or(a.Dir, filepath.Join(data, "auth")), a.For)
	if err != nil {
		return err
	}
	if n.Trust, err = f.Trust(); err != nil {
		return err
	}
	n.TLS, err = f.TLS()
	for _, of := range y.Settings.nodes() {
		of.users = &f
	}
	return err
}

// Reload has services of all models take other settings of their own, as far as they can.
func (y *Cluster) Reload(own any) {
	for _, p := range y.pipelines() {
		p.Reload(own)
	}
}

// Users returns the folder of credentials; nil without Auth.
func (y *Cluster) Users() *credentials.Folder { return y.Settings.Node.users }

// ReloadUsers has the server read the users' accounts again.
func (y *Cluster) ReloadUsers() error {
	trust, err := y.Users().Trust()
	if err != nil {
		return err
	}
	return y.server.Believe(trust)
}

// readyWithin bounds the wait for a pipeline in one process; loading a large
// model is most of it.
const readyWithin = 10 * time.Minute

// cannotLoad keeps the first error that does not mend itself, for Ready.
func (y *Cluster) cannotLoad(err error) {
	if object := (*weights.ObjectError)(nil); errors.As(err, &object) || errors.Is(err, context.Canceled) {
		return
	}
	select {
	case y.broken <- err:
	default:
	}
}

// Ready waits until a token can flow in each model, or a host has found weights that it cannot
// load: they are files of this machine, and do not mend themselves.
func (y *Cluster) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	waiting := make(chan error, 1)
	go func() { waiting <- y.awaitReady(ctx) }()
	select {
	case err := <-waiting:
		return err
	case err := <-y.broken:
		return &deployment.WeightsError{Doing: "the weights cannot be loaded", Err: err}
	case err := <-y.ended:
		y.ended <- nil // said once, as by Wait
		if err == nil {
			err = cmp.Or(ctx.Err(), errors.New("the pipeline ended before it was ready"))
		}
		return err
	}
}

func (y *Cluster) awaitReady(ctx context.Context) error {
	for _, p := range y.pipelines() {
		if err := p.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Connect opens a client's connection into the cluster, with a producer's rights.
func (y *Cluster) Connect(ctx context.Context) (*bus.Conn, error) {
	return bus.Connect(ctx, y.Settings.Node.config(rights.Producer), bus.Settings{Name: "switchyard client", InProcess: y.server, Logger: y.Settings.Node.Shared.Logger})
}

// Client returns a client with a connection of its own, which stop closes.
func (y *Cluster) Client(ctx context.Context) (c *client.Client, stop func(), err error) {
	conn, err := y.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	n := y.Settings.Node
	return client.New(conn.NATS(), client.Settings{Prefix: n.Shared.Prefix, Model: n.ModelName()}), conn.Close, nil
}

// URL returns where clients reach the server.
func (y *Cluster) URL() string { return y.server.URL() }

// Messages returns how many messages the services have published.
func (y *Cluster) Messages() (n uint64) {
	for _, p := range y.pipelines() {
		for _, c := range p.Connections() {
			n += c.NATS().Stats().OutMsgs
		}
	}
	return n
}

// Wait returns when the pipeline has ended by itself or by a signal, and says
// once why.
func (y *Cluster) Wait() error {
	err := <-y.ended
	y.ended <- nil
	return err
}

// Close stops everything and removes a temporary folder.
func (y *Cluster) Close() error {
	y.stop()
	return errors.Join(y.Wait(), y.cleanUp())
}

func (y *Cluster) cleanUp() error {
	if y.server != nil {
		y.server.Shutdown()
	}
	var err error
	if y.temp != "" {
		err = os.RemoveAll(y.temp)
	}
	if y.broker != nil {
		y.broker.Close()
	}
	return errors.Join(err, y.Settings.Close())
}
