package proxy

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// decoder turns the bytes of an encoded answer into plain ones before they are
// cut. Upstream is asked for identity encoding; some do not listen.
type decoder struct {
	pipe *io.PipeWriter
	done sync.WaitGroup
	err  error // how decoding ended; read after done
}

// decode sets a decoder up when the answer is encoded; p.mu must be held.
func (p *pump) decode() error {
	encoding := strings.ToLower(strings.TrimSpace(p.header.Get("Content-Encoding")))
	if encoding == "" || encoding == "identity" {
		return nil
	}
	open, known := decoders[encoding]
	if !known {
		if !p.stream {
			return nil // not ours to understand: delivered as it is
		}
		return errEncoding
	}
	if !p.stream {
		return nil
	}
	p.decoder = newDecoder(open, p.feed)
	return nil
}

var decoders = map[string]func(io.Reader) (io.ReadCloser, error){
	"gzip":    func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) },
	"x-gzip":  func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) },
	"deflate": zlib.NewReader,
	"zstd": func(r io.Reader) (io.ReadCloser, error) {
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	},
}

func newDecoder(open func(io.Reader) (io.ReadCloser, error), feed func([]byte) error) *decoder {
	r, w := io.Pipe()
	d := &decoder{pipe: w}
	d.done.Go(func() {
		d.err = decodeAll(open, r, feed)
		r.CloseWithError(cmpErr(d.err, io.ErrClosedPipe))
	})
	return d
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// decodeAll feeds each piece as soon as the encoder flushed it.
func decodeAll(open func(io.Reader) (io.ReadCloser, error), r io.Reader, feed func([]byte) error) error {
	plain, err := open(r)
	if err != nil {
		return err
	}
	defer plain.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := plain.Read(buf)
		if n > 0 {
			if err := feed(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Write hands encoded bytes over; it returns when they were taken.
func (d *decoder) Write(b []byte) (int, error) { return d.pipe.Write(b) }

// Close ends the input and waits for the last plain byte. It reports whether
// the encoding was whole.
func (d *decoder) Close(clean bool) bool {
	end := io.EOF
	if !clean {
		end = io.ErrUnexpectedEOF
	}
	d.pipe.CloseWithError(end)
	d.done.Wait()
	return d.err == nil
}
