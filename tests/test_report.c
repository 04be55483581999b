/* report.html: complete, escaped, self-contained, small, and drawn from any number of steps. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "train/report_html.h"

/* The page of a report; frees the report. Yours: free(). */
static char *page_of(json_t *report, const json_t *steps)
{
    char path[] = "/tmp/qlft-report-XXXXXX", *text = NULL;
    size_t bytes = 0;
    int handle = mkstemp(path);
    cr_assert(handle >= 0);
    close(handle);
    cr_assert_eq(report_html_write(report, steps, path), QLFT_OK, "%s", qlft_last_error());
    cr_assert_eq(file_read_text(&text, &bytes, path, 16 << 20), QLFT_OK);
    unlink(path);
    json_decref(report);
    return text;
}

static json_t *steps_of(int count)
{
    json_t *steps = json_array();
    for (int i = 1; i <= count; i++)
        json_array_append_new(steps, json_pack("{s:i,s:f,s:f,s:f,s:i,s:i,s:f}", "step", i, "loss", 1 + 2.0 / i, "grad_norm", 0.5, "lr", 1e-4, "tokens", 100,
                                               "supervised_tokens", 50, "seconds", 0.5));
    return steps;
}

static int count_of(const char *text, const char *word)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) count++;
    return count;
}

static void expect_sound(const char *page)
{
    cr_expect(!strncmp(page, "<!doctype html>", 15));
    cr_expect(strstr(page, "</main></body></html>\n"));
    cr_expect_null(strstr(page, "<script"));
    cr_expect_null(strstr(page, "http"), "a page that stands alone fetches nothing");
    cr_expect_null(strstr(page, "url("));
    cr_expect_null(strstr(page, "nan"), "a number that is none was drawn");
    cr_expect_null(strstr(page, "inf%"));
    static const char *const pairs[][2] = {{"<svg ", "</svg>"}, {"<section", "</section>"}, {"<div", "</div>"},
                                           {"<g ", "</g>"},     {"<title>", "</title>"},    {"<table", "</table>"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        cr_expect_eq(count_of(page, pairs[i][0]), count_of(page, pairs[i][1]), "%s is not closed", pairs[i][0]);
}

/* Every point of every curve lies inside the picture that it is drawn in. */
static void expect_inside(const char *page)
{
    for (const char *svg = page; (svg = strstr(svg, "<svg ")); svg++) {
        int width = 0, height = 0, points = 0;
        cr_assert_eq(sscanf(strstr(svg, "viewBox"), "viewBox=\"0 0 %d %d\"", &width, &height), 2);
        const char *end = strstr(svg, "</svg>");
        for (const char *line = svg; (line = strstr(line, "<path class=\"line")) && line < end; line++) {
            for (const char *at = strstr(line, "d=\"") + 3; *at && *at != '"'; at++) {
                double x, y;
                if ((*at != 'M' && *at != 'L') || sscanf(at + 1, "%lf %lf", &x, &y) != 2) continue;
                cr_expect(x >= 0 && x <= width && y >= 0 && y <= height, "%.1f %.1f is outside %d x %d", x, y, width, height);
                points++;
            }
        }
        cr_expect(points > 0, "a picture without a curve");
    }
}

Test(report, holds_what_it_was_given_and_escapes_it)
{
    json_t *report =
        json_pack("{s:s, s:{s:s,s:s,s:i}, s:{s:s}, s:o, s:[{s:s,s:s,s:s}], s:[s], s:[{s:i,s:f,s:i},{s:i,s:f,s:i}], s:{s:s,s:f}}", "version", "0.1.0", "base",
                  "path", "/models/<tiny> & \"co\"", "architecture", "Llama", "parameters", 1234567, "config", "targets", "a'b", "steps", steps_of(40),
                  "samples", "prompt", "<script>alert(1)</script>", "before", "a\x01z", "after", "5 > 4", "warnings", "<b>look</b>", "eval", "step", 0, "loss",
                  3.5, "tokens", 10, "step", 40, "loss", 1.25, "tokens", 10, "result", "exit", "done", "final_loss", 1.05);
    cr_assert_not_null(report);
    char *page = page_of(report, NULL);
    expect_sound(page);
    expect_inside(page);
    cr_expect(strstr(page, "&lt;tiny&gt; &amp; &quot;co&quot;"));
    cr_expect(strstr(page, "a&#39;b"));
    cr_expect(strstr(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
    cr_expect(strstr(page, "a&#xFFFD;z"));
    cr_expect(strstr(page, "5 &gt; 4"));
    cr_expect(strstr(page, "&lt;b&gt;look&lt;/b&gt;"));
    cr_expect(strstr(page, "1,234,567 parameters"));
    cr_expect(strstr(page, "3.500 \xe2\x86\x92 1.250"));
    cr_expect(strstr(page, "step 40: 1.2500"), "held-out points say their loss");
    free(page);
}

Test(report, memory_is_drawn_to_scale)
{
    json_t *report = json_pack("{s:[{s:s,s:s,s:s,s:s,s:i,s:i},{s:s,s:s,s:s,s:s,s:i,s:i}], s:{s:i,s:i,s:i,s:i}}", "ledger", "owner", "model", "name", "codes",
                               "kind", "base", "tier", "device", "planned_bytes", 3 << 20, "used_bytes", 3 << 20, "owner", "lora", "name", "A", "kind",
                               "adapter", "tier", "device", "planned_bytes", 1 << 20, "used_bytes", 1 << 20, "memory", "planned_peak_bytes", 4 << 20,
                               "used_peak_bytes", 4 << 20, "process_peak_bytes", 6 << 20, "unaccounted_bytes", 2 << 20);
    cr_assert_not_null(report);
    char *page = page_of(report, NULL);
    expect_sound(page);
    cr_expect_eq(count_of(page, "style=\"width:75.000%\""), 2, "three of four MiB, planned and used");
    cr_expect_eq(count_of(page, "style=\"width:25.000%\""), 2);
    cr_expect(strstr(page, "as planned to the byte"));
    cr_expect(strstr(page, "6.0 MiB at most: 2.0 MiB more"));
    free(page);
}

Test(report, any_number_of_steps)
{
    static const int counts[] = {0, 1, 2, 19, 20, 601, 100000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        json_t *steps = steps_of(counts[i]);
        char *page = page_of(json_pack("{s:s}", "version", "0.1.0"), steps);
        expect_sound(page);
        expect_inside(page);
        cr_expect_eq(count_of(page, "<svg "), counts[i] ? 4 : 0, "%d steps", counts[i]);
        cr_expect_lt(strlen(page), 600000u, "%d steps make %zu bytes", counts[i], strlen(page));
        json_decref(steps);
        free(page);
    }
}

/* What is not a number is left out; a spike is told instead of flattening the rest. */
Test(report, gaps_and_spikes)
{
    json_t *steps = steps_of(300);
    json_object_set_new(json_array_get(steps, 5), "loss", json_null());
    json_object_set_new(json_array_get(steps, 6), "loss", json_string("NaN"));
    json_object_del(json_array_get(steps, 7), "seconds");
    json_object_set_new(json_array_get(steps, 150), "grad_norm", json_real(4321));
    char *page = page_of(json_object(), steps);
    expect_sound(page);
    expect_inside(page);
    cr_expect(strstr(page, "up to 4.32e+03 at step 151"));
    json_decref(steps);
    free(page);
}

Test(report, a_folder_that_is_not_there_is_an_error)
{
    json_t *report = json_object();
    cr_expect_eq(report_html_write(report, NULL, "/nonexistent/report.html"), QLFT_EIO);
    cr_expect(strstr(qlft_last_error(), "/nonexistent"));
    json_decref(report);
}
