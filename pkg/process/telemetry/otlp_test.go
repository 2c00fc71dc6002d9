package telemetry

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector receives OTLP over HTTP and counts the exports.
func collector(t *testing.T) (count func() int64, url string) {
	t.Helper()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { n.Add(1) }))
	t.Cleanup(server.Close)
	return n.Load, server.URL
}

// answers is a collector without a network, which answers one status after the other.
type answers struct {
	statuses []int
	bodies   [][]byte
	headers  http.Header
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	status := a.statuses[min(len(a.bodies), len(a.statuses)-1)]
	a.bodies, a.headers = append(a.bodies, body), r.Header
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader(strings.Repeat("no ", 1000)))}, nil
}

// A busy collector is asked again for a while, and another refusal is final.
func TestUploadTraces(t *testing.T) {
	spans := []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "gate"}}}}}
	t.Setenv(headersVariable, "Api-Key=a%20b, other=c")
	for name, tt := range map[string]struct {
		statuses []int
		asked    int
		took     time.Duration
		want     string
	}{
		"taken":       {[]int{200}, 1, 0, ""},
		"busy once":   {[]int{503, 429, 200}, 3, 2 * exportPause, ""},
		"always busy": {[]int{503}, 4, exportTime, "the collector is busy"},
		"refused":     {[]int{400}, 1, 0, `Bad Request: "no no`},
		"moved":       {[]int{404}, 1, 0, "http://host:4318/v1/traces answers Not Found"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, err := parseEndpoint("http://host:4318")
				if err != nil {
					t.Fatal(err)
				}
				u, err := newUploader(e)
				if err != nil {
					t.Fatal(err)
				}
				fake := &answers{statuses: tt.statuses}
				u.client.Transport = fake
				begin := time.Now()
				err = u.UploadTraces(t.Context(), spans)
				if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || len(err.Error()) > 2*collectorWords) {
					t.Errorf("%v, want %q", err, tt.want)
				}
				if len(fake.bodies) != tt.asked || time.Since(begin) != tt.took {
					t.Errorf("asked %d times in %v, want %d in %v", len(fake.bodies), time.Since(begin), tt.asked, tt.took)
				}
				var got tracepb.TracesData
				if err := proto.Unmarshal(fake.bodies[0], &got); err != nil || !proto.Equal(&got, &tracepb.TracesData{ResourceSpans: spans}) {
					t.Errorf("it sent %v: %v", &got, err)
				}
				if h := fake.headers; h.Get("Content-Type") != "application/x-protobuf" || h.Get("Api-Key") != "a b" || h.Get("Other") != "c" {
					t.Errorf("headers %v", h)
				}
			})
		})
	}
}

func TestExportHeaders(t *testing.T) {
	for _, text := range []string{"key", "key=secret%", "a=b,key"} {
		if _, err := exportHeaders(text); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), `"key"`) {
			t.Errorf("%s: %v", text, err)
		}
	}
	t.Setenv(headersVariable, "key")
	if _, err := Setup(t.Context(), Config{OTLPEndpoint: "http://127.0.0.1:1", TraceSample: 1}); err == nil || errors.Is(err, ErrListen) {
		t.Error(err)
	}
}
