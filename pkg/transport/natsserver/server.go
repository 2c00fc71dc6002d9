package natsserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
)

// DefaultMaxPayload is the largest message in bytes unless Settings say
// otherwise: a microbatch's rows shall fit, and 8 MiB is what NATS advises at most.
const DefaultMaxPayload = 8 << 20

// unlimited is a bound that no stream reaches. Streams here have bounds of
// their own, and the server's default (three quarters of memory and of the
// free disk) counts those bounds as used, so that a deep model on a small
// machine could not create its streams.
const unlimited = 1 << 50

const readyWithin = 15 * time.Second

// tlsWithin bounds a handshake; the server's default is too short for a busy machine.
const tlsWithin = 10 * time.Second

// ErrPublicListen refuses a listener that the network could use without a password.
var ErrPublicListen = errors.New("listening beyond the loopback without TLS and authentication")

// Settings are what code sets.
type Settings struct {
	// StoreDir keeps the file streams.
	StoreDir string
	// Listen is host:port; port 0 takes a free one. Empty: only this process can connect.
	Listen string
	// MaxPayload is in bytes; 0 means DefaultMaxPayload.
	MaxPayload int
	// Insecure allows a Listen address beyond the loopback without Trust and TLS.
	Insecure bool
	// Trust is whom the server believes; nil: everybody may do everything.
	Trust *credentials.Trust
	// TLS is what clients of other processes must speak; nil: they must not.
	TLS *tls.Config
	// SyncAlways writes through to the disk before anything is acknowledged:
	// without it a power cut (not a crash) may lose the last two minutes.
	SyncAlways bool
	// Logger gets the server's warnings and errors; nil discards them.
	Logger *slog.Logger
}

// Server is a running server.
type Server struct {
	inner   atomic.Pointer[server.Server]
	lock    *storeLock
	folder  *folder
	scheme  string   // of its URL
	readers *readers // nil without Trust

	mu   sync.Mutex      // starting again, and believing others
	opts *server.Options // what it is started with
}

// Start returns when clients can connect and JetStream works. The folder is
// this server's until Shutdown: a second one on it is refused with ErrInUse.
func Start(s Settings) (*Server, error) {
	if err := checkStoreDir(s.StoreDir); err != nil {
		return nil, err
	}
	lock, err := lockStore(s.StoreDir)
	if err != nil {
		return nil, err
	}
	srv := &Server{lock: lock, scheme: "nats://", folder: newFolder(s)}
	if s.TLS != nil {
		srv.scheme = "tls://"
	}
	if err := srv.run(s); err != nil {
		lock.release()
		return nil, err
	}
	if s.Trust != nil {
		srv.readers = watchReaders(srv.inner.Load, s.Logger, s.Trust)
	}
	srv.folder.done.Go(func() { srv.folder.watch(srv.startAgain) })
	return srv, nil
}

// run starts the server on a folder that is ours.
func (srv *Server) run(s Settings) error {
	opts, err := s.options()
	if err == nil && s.Trust != nil {
		err = believe(opts, s.Trust)
	}
	if err != nil {
		return err
	}
	srv.opts = opts
	return srv.begin(newLogAdapter(s.Logger, srv.folder))
}

// begin starts a server with the options that there are, and keeps the port that it gets.
func (srv *Server) begin(log *logAdapter) error {
	inner, err := server.NewServer(srv.opts.Clone())
	if err != nil {
		return fmt.Errorf("configuring the NATS server: %w", err)
	}
	inner.SetLoggerV2(log, false, false, false)
	go inner.Start() // returns once it accepts connections, or after a fatal error
	if err := awaitReady(inner, log); err != nil {
		inner.Shutdown()
		inner.WaitForShutdown()
		return fmt.Errorf("starting the NATS server: %w", err)
	}
	if at, ok := inner.Addr().(*net.TCPAddr); ok {
		srv.opts.Port = at.Port
	}
	srv.inner.Store(inner)
	return nil
}

// startAgain has another server take the place of the one that runs, on the same folder and address:
// its clients come back to it as they do to any that was restarted.
func (srv *Server) startAgain() error {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	inner := srv.inner.Load()
	inner.Shutdown()
	inner.WaitForShutdown()
	return srv.begin(newLogAdapter(srv.folder.log, srv.folder))
}

// InProcessConn connects without a socket; nats.InProcessServer takes a Server.
func (srv *Server) InProcessConn() (net.Conn, error) { return srv.inner.Load().InProcessConn() }

// URL is where clients of other processes connect; empty without Listen. Of a server
// that listens everywhere it is the loopback's.
func (srv *Server) URL() string {
	addr := srv.inner.Load().Addr()
	if addr == nil {
		return ""
	}
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err != nil || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return srv.scheme + net.JoinHostPort(host, port)
}

// Shutdown stops the server and waits until its stores are closed. It may be called twice.
func (srv *Server) Shutdown() {
	srv.folder.stop()
	srv.readers.stop()
	inner := srv.inner.Load()
	inner.Shutdown()
	inner.WaitForShutdown()
	srv.lock.release()
}

func (s Settings) options() (*server.Options, error) {
	opts := &server.Options{
		ServerName:         "switchyard-" + strconv.Itoa(os.Getpid()),
		JetStream:          true,
		StoreDir:           s.StoreDir,
		JetStreamMaxMemory: unlimited,
		JetStreamMaxStore:  unlimited,
		SyncAlways:         s.SyncAlways,
		MaxPayload:         int32(s.MaxPayload),
		// Slow consumers are cut off at this many bytes; it must hold several of the largest messages.
		MaxPending: 256 << 20,
		// Nobody waits for one who reads too slowly: it loses messages instead. Else
		// whoever listens beside the services, and hangs, would slow them down.
		NoFastProducerStall:   true,
		NoSigs:                true, // the process's own handlers decide
		NoSystemAccount:       true,
		DisableShortFirstPing: true,
		// A client that hangs keeps its share of queue groups until it is cut
		// off, in the third interval; the default is two minutes each.
		PingInterval: 2 * time.Second,
		MaxPingsOut:  2,
	}
	if s.MaxPayload == 0 {
		opts.MaxPayload = DefaultMaxPayload
	}
	if s.Listen == "" {
		opts.DontListen = true
		return opts, nil
	}
	return opts, s.listenOn(opts)
}

func (s Settings) listenOn(opts *server.Options) error {
	host, port, err := flagvalue.ListenAddress(s.Listen)
	if err != nil {
		return fmt.Errorf("the address to listen on is %q: %w", s.Listen, err)
	}
	if !s.Insecure && (s.Trust == nil || s.TLS == nil) && !flagvalue.IsLoopback(host) {
		return fmt.Errorf("%w: %s; use 127.0.0.1, add users and TLS with --auth, or allow it with --insecure", ErrPublicListen, s.Listen)
	}
	if s.TLS != nil {
		opts.TLS, opts.TLSConfig, opts.TLSTimeout = true, s.TLS, tlsWithin.Seconds()
	}
	opts.Host, opts.Port = host, port
	if port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	return checkPort(s.Listen)
}

// checkPort finds a taken port before the server does, which would only log it.
func checkPort(address string) error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return fmt.Errorf("listening on %s (is another server running there? choose another port): %w", address, err)
	}
	return l.Close()
}

// checkStoreDir creates the folder and writes to it once: the server would
// otherwise fail later and say less.
func checkStoreDir(dir string) error {
	if dir == "" {
		return errors.New("the NATS server needs a folder for its streams: set a data directory")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the data directory %s: %w", dir, err)
	}
	if err := tryWriting(dir, roomTried); err != nil {
		return fmt.Errorf("writing to the data directory %s (check its owner, its mode, and that there is room): %w", dir, err)
	}
	return nil
}

// awaitReady polls, because a fatal error is only logged and would otherwise
// cost the whole wait.
func awaitReady(inner *server.Server, log *logAdapter) error {
	deadline := time.Now().Add(readyWithin)
	for time.Now().Before(deadline) {
		if inner.ReadyForConnections(20*time.Millisecond) && inner.JetStreamEnabled() {
			return nil
		}
		if err := log.fatal(); err != nil {
			return err
		}
	}
	return fmt.Errorf("not ready after %v", readyWithin)
}
