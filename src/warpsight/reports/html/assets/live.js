// A served page asks once a second whether its result has changed, and shows itself again, the view kept in the hash.
W.part(() => {
  const here = location.pathname.replace("/show/", "/stamp/");
  let first;
  const ask = async () => {
    try {
      const answer = await fetch(here, { cache: "no-store" });
      if (answer.ok) {
        const stamp = await answer.text();
        if (first !== undefined && stamp !== first) location.reload();
        first = stamp;
      } else W.say("this result no longer exists");
    } catch { W.say("the server has stopped; this page no longer reloads"); }
    setTimeout(ask, 1000);
  };
  ask();
});
