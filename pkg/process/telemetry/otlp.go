package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// exportTime bounds one export with its repeats.
	exportTime = 10 * time.Second
	// exportPause is between an export that a busy collector refused and its repeat.
	exportPause = 3 * time.Second
	// collectorWords is how much of a refusal is logged, in bytes.
	collectorWords = 200
	// headersVariable has more headers of exports, such as keys: "name=value,…", values escaped
	// as in a URL. https://opentelemetry.io/docs/specs/otel/protocol/exporter/
	headersVariable = "OTEL_EXPORTER_OTLP_HEADERS"
)

// uploader sends spans by OTLP over HTTP, as otlptrace.Client. OpenTelemetry's own brings all of
// gRPC.
type uploader struct {
	url     string
	headers http.Header
	client  *http.Client
}

func newUploader(e endpoint) (*uploader, error) {
	u := url.URL{Scheme: "http", Host: e.host, Path: e.path}
	if e.secure {
		u.Scheme = "https"
	}
	if u.Path == "" {
		u.Path = "/v1/traces"
	}
	headers, err := exportHeaders(os.Getenv(headersVariable))
	if err != nil {
		return nil, err
	}
	headers.Set("Content-Type", "application/x-protobuf")
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute}
	return &uploader{u.String(), headers, &http.Client{Transport: transport}}, nil
}

// exportHeaders reads headersVariable.
func exportHeaders(text string) (http.Header, error) {
	headers := http.Header{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if !found || err != nil { // the value may be a secret
			return nil, fmt.Errorf("%s: the header %q is not NAME=VALUE with a value escaped as in a URL", headersVariable, strings.TrimSpace(name))
		}
		headers.Set(strings.TrimSpace(name), plain)
	}
	return headers, nil
}

// Start has nothing to do: the first export connects.
func (u *uploader) Start(context.Context) error { return nil }

// Stop closes connections.
func (u *uploader) Stop(context.Context) error {
	u.client.CloseIdleConnections()
	return nil
}

// errBusy is what a collector says that may take the same export later.
var errBusy = errors.New("the collector is busy")

// UploadTraces sends spans, again while the collector is busy, and gives up in the end.
func (u *uploader) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}) // in bytes, it is the request's message
	if err != nil {
		return fmt.Errorf("encoding spans: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, exportTime)
	defer cancel()
	for {
		err := u.upload(ctx, body)
		if !errors.Is(err, errBusy) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(exportPause):
		}
	}
}

func (u *uploader) upload(ctx context.Context, body []byte) (err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("sending spans: %w", err)
	}
	r.Header = u.headers.Clone()
	answer, err := u.client.Do(r)
	if err != nil {
		return fmt.Errorf("sending spans: %w", err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	said, err := io.ReadAll(io.LimitReader(answer.Body, collectorWords))
	if err != nil {
		return fmt.Errorf("reading the collector's answer: %w", err)
	}
	switch answer.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Errorf("%s answers %s: %w", u.url, answer.Status, errBusy)
	}
	return fmt.Errorf("%s answers %s: %q", u.url, answer.Status, said)
}
