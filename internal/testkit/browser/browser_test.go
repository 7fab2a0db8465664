package browser

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAPageRunsAScript(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<title>a page</title><script>later = new Promise(r => setTimeout(r, 10, {n: 3}))</script>`))
	}))
	defer page.Close()
	p := Launch(t).Open(t, page.URL)
	var title string
	p.Eval(t, "document.title", &title)
	var later struct{ N int }
	p.Eval(t, "later", &later)
	if title != "a page" || later.N != 3 {
		t.Errorf("got title %q and %d, want %q and 3", title, later.N, "a page")
	}
}
