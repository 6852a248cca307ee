package page_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gantry/sqlite/report/page"
)

// Results are listed with sizes, links and small pictures; nothing outside of the directory is, and no picture that
// would take much memory is unpacked.
func TestResultsAreListedWithPictures(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) {
		must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	var picture bytes.Buffer
	must(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 900, 3))))
	bomb := bytes.Clone(picture.Bytes())
	binary.BigEndian.PutUint32(bomb[16:], 1<<30)
	binary.BigEndian.PutUint32(bomb[20:], 1<<30)
	binary.BigEndian.PutUint32(bomb[29:], crc32.ChecksumIEEE(bomb[12:29]))
	write("flow/a #1?.png", picture.Bytes())
	write("flow/bomb.png", bomb)
	write("flow/cut.png", picture.Bytes()[:60])
	write("flow/deep/t.txt", []byte("four"))
	write("other/x", nil)
	write("secret", []byte("outside"))
	for name, to := range map[string]string{"flow/link": "../secret", "flow/out": "/etc"} {
		must(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	all, more := page.ResultsIn(dir, "./r/", []string{"flow", "../secret", "gone"})
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
		pictured := strings.HasPrefix(r.Thumb, "data:image/jpeg;base64,")
		if pictured != (r.Name == "flow/a #1?.png") {
			t.Errorf("%s has a picture: %v", r.Name, pictured)
		}
	}
	if got := strings.Join(names, " "); got != "flow/a #1?.png flow/bomb.png flow/cut.png flow/deep/t.txt" ||
		more != 0 {
		t.Fatalf("results are %s and %d more", got, more)
	}
	if got := all[0].Link; got != "./r/flow/a%20%231%3F.png" {
		t.Errorf("the link of a picture is %s", got)
	}
	for name, opens := range map[string]bool{"flow/deep/t.txt": true, "flow/deep": false,
		"flow/out/passwd": false, "../secret": false, "gone": false} {
		f, err := page.OpenResult(dir, name)
		if (err == nil) != opens {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			f.Close()
		}
	}
	if all[3].Bytes != 4 {
		t.Errorf("a text of 4 bytes has %d", all[3].Bytes)
	}
	for i := range 300 {
		write("many/"+strconv.Itoa(i), nil)
	}
	if all, more = page.ResultsIn(dir, "", []string{"many"}); len(all) != 200 || more != 100 ||
		all[0].Link != "" || all[2].Name != "many/2" || all[199].Name != "many/199" {
		t.Errorf("of 300 results %d are listed, and %d are more (%q)", len(all), more, all[0].Link)
	}
	write("zeros/part-8", nil)
	write("zeros/part-007", nil)
	if all, _ = page.ResultsIn(dir, "", []string{"zeros"}); all[0].Name != "zeros/part-007" {
		t.Errorf("%s stands first", all[0].Name)
	}
}
