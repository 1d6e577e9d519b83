package main

import (
	"context"
	"net"
	"net/http"
	"testing"
)

func TestServeAnswersUntilStopped(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, address) }()
	var res *http.Response
	for res == nil { // until it listens, or has given up
		select {
		case err := <-done:
			t.Fatalf("serve ended: %v", err)
		default:
			res, _ = http.Get("http://" + address + "/_up")
		}
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("status %s", res.Status)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("serve = %v", err)
	}
}

func TestServeTellsWhyItCannotListen(t *testing.T) {
	if err := serve(t.Context(), "256.0.0.1:1"); err == nil {
		t.Error("serve on an address that is none gave no error")
	}
}
