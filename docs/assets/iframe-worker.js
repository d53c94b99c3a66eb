// Browsers start no web workers on pages that are read from the disk. The search of the theme runs in a hidden frame there;
// its worker knows this case by the name IFrameWorker.
if (location.protocol === "file:") {
  const prelude = () => {
    self.postMessage = data => parent.postMessage(data, "*");
    self.importScripts = async (...urls) => {
      for (const url of urls) {
        await new Promise((loaded, failed) => {
          const script = Object.assign(document.createElement("script"), {src: url, onload: loaded, onerror: failed});
          document.head.append(script);
        });
      }
    };
  };

  window.Worker = window.IFrameWorker = class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = `<script>(${prelude})()<\/script><script src="${new URL(url, location)}"><\/script>`;
      this.loaded = new Promise(loaded => this.frame.addEventListener("load", loaded));
      addEventListener("message", ({source, data}) => {
        if (source === this.frame.contentWindow) this.dispatchEvent(new MessageEvent("message", {data}));
      });
      document.body.append(this.frame);
    }
    async postMessage(data) {
      await this.loaded;
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data}));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
