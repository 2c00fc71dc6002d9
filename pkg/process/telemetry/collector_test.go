package telemetry

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// collector receives OTLP over the scheme's protocol and counts the exports.
func collector(t *testing.T, scheme string) (count func() int64, addr string) {
	t.Helper()
	var n atomic.Int64
	if scheme == "http://" {
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { n.Add(1) }))
		t.Cleanup(server.Close)
		return n.Load, strings.TrimPrefix(server.URL, scheme)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(server, &grpcCollector{n: &n})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return n.Load, listener.Addr().String()
}

type grpcCollector struct {
	collectortrace.UnimplementedTraceServiceServer
	n *atomic.Int64
}

func (c *grpcCollector) Export(context.Context, *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	c.n.Add(1)
	return &collectortrace.ExportTraceServiceResponse{}, nil
}
